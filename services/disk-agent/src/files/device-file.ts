import { type DeviceId, fileDifference, type Logger, messageOf, sizeChangeText } from "@diskmesh/domain";
import type { Changes, Clock } from "@diskmesh/service";
import { type ByteRange, HeldBytes } from "../model/held-bytes.js";
import { type HoldingEvent, type HoldingPhase, nextHolding } from "../model/holding.js";
import { FileSyncs } from "./file-syncs.js";
import { type FileFacts, type FileOpener, isGone, type OpenedFile, type OpenHandle } from "./open-file.js";

/** A device as seen by its file. */
export interface FileUser {
  readonly id: DeviceId;
  readonly config: { readonly path: string; readonly offsetBytes: number };
  readonly sizeBytes: number;
  /** True when the device was ordered attached, or was never ordered detached. */
  readonly wanted: boolean;
  /** True when the file must be open for the device. */
  readonly holds: boolean;
  /** Byte range of the device in the file, once verified. */
  readonly range: ByteRange;
  verify(facts: FileFacts): void;
  fail(failure: DeviceFailure): void;
  /** Called once the open file is verified for the device. */
  noteOpened(handle: OpenHandle): void;
  noteUnusable(message: string): void;
  /** Records that unsynced writes to the file were lost. They may be writes of any device on the file. */
  noteLostWrites(): void;
}

export interface DeviceFailure {
  readonly outcome: "io_error" | "device_changed";
  readonly message: string;
}

/** Opens the files of devices. */
export type DeviceFileOpener = Pick<FileOpener, "open" | "look" | "clear">;

export interface DeviceFileOptions {
  readonly path: string;
  readonly opener: DeviceFileOpener;
  readonly changes: Changes<void>;
  readonly clock: Clock;
  /** Held byte ranges by file identity, because several paths may name one file. */
  readonly heldBytes: Map<string, HeldBytes<FileUser>>;
  /** Called when the path names another file than before, or the file's size has changed. */
  readonly onChange: () => void;
  readonly log: Logger;
}

/**
 * One path and its descriptor, which all devices on the path share. The descriptor is closed once no device needs it.
 */
export class DeviceFile {
  readonly path: string;
  readonly devices: FileUser[] = [];
  readonly #options: DeviceFileOptions;
  #phase: HoldingPhase = "closed";
  #phaseSinceMs = 0;
  #opened: OpenedFile | undefined;
  #seen: FileFacts | undefined;
  #changed: string | undefined;
  /** Error of the last check of the path. */
  #lookError: string | undefined;
  #looking: Promise<void> | undefined;
  /** Devices that need the file open. */
  readonly #holding = new Set<FileUser>();
  /** Devices of #holding that are not yet verified against the open file. */
  readonly #unverified = new Set<FileUser>();
  readonly #syncs = new FileSyncs(() => {
    for (const device of this.devices) device.noteLostWrites();
  });
  #operationsInFlight = 0;
  /** Error of the last open; empty after a success. */
  #openError = "";

  constructor(options: DeviceFileOptions) {
    this.path = options.path;
    this.#options = options;
  }

  get phase(): HoldingPhase {
    return this.#phase;
  }

  /** Monotonic time at which the running open or close began; undefined when none is running. */
  get busySinceMs(): number | undefined {
    return this.#phase === "opening" || this.#phase === "closing" ? this.#phaseSinceMs : undefined;
  }

  /** Descriptor for new I/O; undefined when there is none. */
  get handle(): OpenHandle | undefined {
    return this.#phase === "open" ? this.#opened?.handle : undefined;
  }

  /** Facts of the open file from the last check; undefined when none is open. */
  get held(): FileFacts | undefined {
    const isSame = this.#opened !== undefined && this.#seen?.identity === this.#opened.identity;
    return isSame ? this.#seen : this.#opened;
  }

  /** Facts of the file that the path named at the last check that could tell; undefined for none. */
  get seen(): FileFacts | undefined {
    return this.#seen;
  }

  /** Reason why the path no longer names the held file; undefined while it does, or no file is held. */
  get changed(): string | undefined {
    return this.#changed;
  }

  /** True when the path still names the held file, possibly with another length. */
  get isOnlyResized(): boolean {
    return this.#lookError === undefined && this.#opened?.identity === this.#seen?.identity;
  }

  /** True when the path names another file than the held one, or a file of another size. */
  get replaced(): boolean {
    return this.#opened !== undefined && this.#seen !== undefined && this.#difference(this.#opened) !== undefined;
  }

  /** True when any device needs the file open. */
  get isHeld(): boolean {
    return this.#holding.size > 0;
  }

  /**
   * Updates the set of devices that need the file. Must be called whenever a device starts or stops needing the file,
   * because scanning the thousands of devices of one file on each change would be too slow.
   */
  noteHolds(device: FileUser): void {
    if (device.holds === this.#holding.has(device)) return;
    if (device.holds) {
      this.#holding.add(device);
      this.#unverified.add(device);
      return;
    }
    this.#holding.delete(device);
    if (!this.#unverified.delete(device) && this.#opened) this.#release(this.#opened.identity, device);
  }

  /** Resolves once all earlier writes through the descriptor are on the drive. */
  sync(handle: OpenHandle): Promise<void> {
    return this.#syncs.sync(handle);
  }

  /** Counts a system call on the file: 1 when it begins, -1 when it has ended. */
  noteInFlight(change: 1 | -1): void {
    this.#operationsInFlight += change;
  }

  /** Opens or closes the file, depending on the devices that need it and on the I/O in flight. */
  reconcile(): void {
    // Verifies devices that began to need the file while it was open for others, because the file may be too short for
    // them.
    if (this.held && (this.#phase === "open" || this.#phase === "draining")) this.#verify(this.held);
    this.#apply("changed");
  }

  /** Ends what a former life of the agent has left over a file that no device needs. Until then the file counts as closing. */
  clear(): void {
    const { opener, log } = this.#options;
    if (opener.clear === undefined || this.#phase !== "closed") return;
    this.#phase = "closing";
    this.#phaseSinceMs = this.#options.clock.monotonicMs();
    opener
      .clear(this.path)
      .catch((error: unknown) => log.error({ path: this.path, error: messageOf(error) }, "device file not cleared"))
      .finally(() => this.#apply("closed"));
  }

  /**
   * Checks which file the path names now. Never closes the held file, because it may be the only access to written
   * data. A check of a dead drive may hang, so only one check runs at a time.
   */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
      this.#options.changes.touch();
    });
    return this.#looking;
  }

  async #look(): Promise<void> {
    try {
      this.#note(await this.#options.opener.look(this.path), undefined);
    } catch (error) {
      this.#note(isGone(error) ? undefined : this.#seen, messageOf(error));
    }
  }

  #note(seen: FileFacts | undefined, problem: string | undefined): void {
    const before = { seen: this.#seen, changed: this.#changed };
    this.#seen = seen;
    this.#lookError = problem;
    this.#changed = this.#opened && (problem ?? this.#difference(this.#opened));
    if (!this.#opened && this.#phase === "closed")
      for (const device of this.devices) {
        if (device.wanted) continue;
        if (problem !== undefined) device.noteUnusable(problem);
        else if (seen) device.verify(seen);
      }
    if (sameFacts(before.seen, this.#seen) && before.changed === this.#changed) return;
    if (this.#changed !== undefined)
      this.#options.log.warn({ path: this.path, reason: this.#changed }, "device file changed");
    this.#options.onChange();
  }

  #difference(held: FileFacts): string | undefined {
    const seen = this.#seen;
    if (!seen) return undefined;
    const marks = (facts: FileFacts) => ({ serialNumber: facts.serialNumber, fileIdentity: facts.identity });
    const other =
      held.sizeBytes === seen.sizeBytes
        ? fileDifference(marks(held), marks(seen))
        : `its size ${sizeChangeText(held.sizeBytes, seen.sizeBytes)}`;
    if (other === undefined) return undefined;
    const what = this.isOnlyResized
      ? "has another size than when it was opened"
      : "is now another file than the open file";
    return `path ${JSON.stringify(this.path)} ${what}: ${other}`;
  }

  #apply(event: HoldingEvent): void {
    const idle = this.#operationsInFlight === 0;
    const next = nextHolding(this.#phase, event, { wanted: this.isHeld, idle });
    if (next.phase !== this.#phase) this.#phaseSinceMs = this.#options.clock.monotonicMs();
    this.#phase = next.phase;
    if (next.effect === "open") void this.#open();
    if (next.effect === "close") void this.#close();
    this.#options.changes.touch();
  }

  async #open(): Promise<void> {
    const { opener, log } = this.#options;
    try {
      this.#opened = await opener.open(this.path);
    } catch (error) {
      const message = messageOf(error);
      for (const device of [...this.#holding]) device.fail({ outcome: "io_error", message });
      // The open is retried periodically; a repeated error is logged once.
      if (message !== this.#openError) log.error({ path: this.path, error: message }, "device file open failed");
      this.#openError = message;
      this.#apply("open_failed");
      return;
    }
    this.#openError = "";
    const before = this.#seen;
    this.#seen = this.#opened;
    this.#changed = undefined;
    this.#verify(this.#opened);
    log.info({ path: this.path }, "device file opened");
    this.#apply("opened");
    if (!sameFacts(before, this.#seen)) this.#options.onChange();
  }

  #verify(opened: FileFacts): void {
    for (const device of [...this.#unverified]) {
      device.verify(opened);
      if (!device.holds) continue;
      const other = this.#take(opened.identity, device);
      if (other) device.fail({ outcome: "io_error", message: sameBytes(device, other) });
      else {
        this.#unverified.delete(device);
        if (this.#opened) device.noteOpened(this.#opened.handle);
      }
    }
  }

  /**
   * Reserves the device's byte range of the file. Returns the device that already holds an overlapping range, through
   * any path.
   */
  #take(identity: string, device: FileUser): FileUser | undefined {
    const { heldBytes } = this.#options;
    const held = heldBytes.get(identity) ?? new HeldBytes();
    heldBytes.set(identity, held);
    return held.take(device, device.range);
  }

  #release(identity: string, device: FileUser): void {
    const held = this.#options.heldBytes.get(identity);
    held?.release(device);
    if (held?.isEmpty) this.#options.heldBytes.delete(identity);
  }

  async #close(): Promise<void> {
    const { log } = this.#options;
    const opened = this.#opened;
    this.#opened = undefined;
    this.#changed = undefined;
    try {
      await opened?.handle.close();
      log.info({ path: this.path }, "device file closed");
    } catch (error) {
      // Counts as closed: on Linux, close releases the descriptor even when it reports an error of earlier writes.
      log.error({ path: this.path, error: messageOf(error) }, "device file close failed");
    }
    this.#apply("closed");
  }
}

function sameBytes(device: FileUser, other: FileUser): string {
  const nameOf = ({ id, config }: FileUser) => `${id}, file ${JSON.stringify(config.path)},`;
  return `device ${nameOf(device)} lies on the same bytes as device ${nameOf(other)} which is open: give each device its own bytes, or remove one device from the agent's configuration`;
}

function sameFacts(a: FileFacts | undefined, b: FileFacts | undefined): boolean {
  return a?.identity === b?.identity && a?.sizeBytes === b?.sizeBytes;
}

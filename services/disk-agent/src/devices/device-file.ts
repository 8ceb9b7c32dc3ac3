import { type DeviceId, fileDifference, type Logger, messageOf } from "@diskmesh/domain";
import type { Changes, Clock } from "@diskmesh/service";
import { type HoldingEvent, type HoldingPhase, nextHolding } from "../model/holding.js";
import { FileSyncs } from "./file-syncs.js";
import { type ByteRange, HeldBytes } from "./held-bytes.js";
import type { FileFacts, FileOpener, OpenedFile, OpenHandle } from "./open-file.js";

/** A device as its file knows it. */
export interface FileUser {
  readonly id: DeviceId;
  readonly config: { readonly path: string; readonly offsetBytes: number };
  readonly sizeBytes: number;
  /** It was ordered attached, or never detached. */
  readonly wanted: boolean;
  /** The file is to be open for it. */
  readonly holds: boolean;
  /** Its place in the file, once that was verified. */
  readonly range: ByteRange;
  verify(facts: FileFacts): void;
  fail(failure: DeviceFailure): void;
  noteUnusable(message: string): void;
  /** Something that was written into the file, and not synced, is lost: whose it was nobody can tell. */
  noteLostWrites(): void;
}

export interface DeviceFailure {
  readonly outcome: "io_error" | "device_changed";
  readonly message: string;
}

export interface DeviceFileOptions {
  readonly path: string;
  readonly opener: FileOpener;
  readonly changes: Changes<void>;
  readonly clock: Clock;
  /** By the identity of the file: what of it is held, under whichever names. */
  readonly heldBytes: Map<string, HeldBytes<FileUser>>;
  /** What the path names has become another file, or has changed its size. */
  readonly onChange: () => void;
  readonly log: Logger;
}

/** One path and its one descriptor, shared by all devices on it; closed with the last of them. */
export class DeviceFile {
  readonly path: string;
  readonly devices: FileUser[] = [];
  readonly #options: DeviceFileOptions;
  #phase: HoldingPhase = "closed";
  #phaseSinceMs = 0;
  #opened: OpenedFile | undefined;
  #seen: FileFacts | undefined;
  #changed: string | undefined;
  /** Of the last look. */
  #lookError: string | undefined;
  #looking: Promise<void> | undefined;
  /** Devices for which the file is to be open, */
  readonly #holding = new Set<FileUser>();
  /** and those of them that were not held against the open file yet. */
  readonly #unverified = new Set<FileUser>();
  readonly #syncs = new FileSyncs(() => {
    for (const device of this.devices) device.noteLostWrites();
  });
  #operationsInFlight = 0;
  /** Of the last open; empty after one that worked. */
  #openError = "";

  constructor(options: DeviceFileOptions) {
    this.path = options.path;
    this.#options = options;
  }

  get phase(): HoldingPhase {
    return this.#phase;
  }

  /** Since when an open or a close is under way, by the monotonic clock; undefined when none is. */
  get busySinceMs(): number | undefined {
    return this.#phase === "opening" || this.#phase === "closing" ? this.#phaseSinceMs : undefined;
  }

  /** The descriptor that new I/O may use; undefined when there is none. */
  get handle(): OpenHandle | undefined {
    return this.#phase === "open" ? this.#opened?.handle : undefined;
  }

  /** The file that is held open, as long as it was found to be at the last look; undefined when none is. */
  get held(): FileFacts | undefined {
    const isSame = this.#opened !== undefined && this.#seen?.identity === this.#opened.identity;
    return isSame ? this.#seen : this.#opened;
  }

  /** What the path named when it was last looked at; undefined when it never could be. */
  get seen(): FileFacts | undefined {
    return this.#seen;
  }

  /** Why the path does not name the file that is held any more; undefined while it does, or none is held. */
  get changed(): string | undefined {
    return this.#changed;
  }

  /** Whether the path names the file that is held, of another length. */
  get isOnlyResized(): boolean {
    return this.#lookError === undefined && this.#opened?.identity === this.#seen?.identity;
  }

  /** Whether the path names another file than the one that is held. */
  get replaced(): boolean {
    return this.#opened !== undefined && this.#seen !== undefined && this.#difference(this.#opened) !== undefined;
  }

  /** Whether the file is to be open for some device. */
  get isHeld(): boolean {
    return this.#holding.size > 0;
  }

  /** Called whenever the device begins or ceases to hold the file. Thousands of devices may be on one: none looks at all. */
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

  /** Resolves once what was written through the descriptor before is on the drive. */
  sync(handle: OpenHandle): Promise<void> {
    return this.#syncs.sync(handle);
  }

  /** The operating system is asked something about the file, or has answered it. */
  noteInFlight(change: 1 | -1): void {
    this.#operationsInFlight += change;
  }

  /** Looks again at what is wanted and what is in flight, and opens or closes accordingly. */
  reconcile(): void {
    // A device that became wanted while the file was open for others has not been held against it yet.
    // It may have been too short for the device when it was opened for others.
    if (this.held && (this.#phase === "open" || this.#phase === "draining")) this.#verify(this.held);
    this.#apply("changed");
  }

  /**
   * Looks what the path names now. The file that is held stays so, whatever is found: it may be the only way to what was
   * written. A look at a dead drive may hang, so there is one at a time.
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
      this.#note(undefined, messageOf(error));
    }
  }

  #note(seen: FileFacts | undefined, problem: string | undefined): void {
    const before = { seen: this.#seen, changed: this.#changed };
    this.#seen = seen ?? this.#seen;
    this.#lookError = problem;
    this.#changed = this.#opened && (problem ?? this.#difference(this.#opened));
    if (!this.#opened && this.#phase === "closed")
      for (const device of this.devices) {
        if (seen && !device.wanted) device.verify(seen);
        else if (problem !== undefined && !device.wanted) device.noteUnusable(problem);
      }
    if (sameFacts(before.seen, this.#seen) && before.changed === this.#changed) return;
    if (this.#changed !== undefined)
      this.#options.log.warn({ path: this.path, reason: this.#changed }, "a device file changed");
    this.#options.onChange();
  }

  #difference(held: FileFacts): string | undefined {
    const seen = this.#seen;
    if (!seen) return undefined;
    const marks = (facts: FileFacts) => ({ serialNumber: facts.serialNumber, fileIdentity: facts.identity });
    const other =
      fileDifference(marks(held), marks(seen)) ??
      (held.sizeBytes === seen.sizeBytes ? undefined : `it held ${held.sizeBytes} bytes, and holds ${seen.sizeBytes}`);
    return other && `path ${JSON.stringify(this.path)} names another file than the one that is held: ${other}`;
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
      // Tried again from time to time: once is enough.
      if (message !== this.#openError) log.error({ path: this.path, error: message }, "a device file cannot be opened");
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
      else this.#unverified.delete(device);
    }
  }

  /** Under this name of the file or another, nobody else may hold some of the device's bytes: who does. */
  #take(identity: string, device: FileUser): FileUser | undefined {
    const { heldBytes } = this.#options;
    const held = heldBytes.get(identity) ?? new HeldBytes();
    heldBytes.set(identity, held);
    return held.take(device, device.range);
  }

  #release(identity: string, device: FileUser): void {
    const held = this.#options.heldBytes.get(identity);
    held?.release(device, device.range);
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
      // Linux has given the descriptor back even when close reports an error of earlier writes.
      log.error({ path: this.path, error: messageOf(error) }, "closing a device file reported an error");
    }
    this.#apply("closed");
  }
}

function sameBytes(device: FileUser, other: FileUser): string {
  const nameOf = ({ id, config }: FileUser) => `${id}, file ${JSON.stringify(config.path)},`;
  return `device ${nameOf(device)} lies on the same bytes as device ${nameOf(other)} which is held: give each bytes of its own, or take one of them out of the agent's configuration`;
}

function sameFacts(a: FileFacts | undefined, b: FileFacts | undefined): boolean {
  return a?.identity === b?.identity && a?.sizeBytes === b?.sizeBytes;
}

import { type DeviceId, fileDifference, type Logger, messageOf } from "@diskmesh/domain";
import type { Changes, Clock } from "@diskmesh/service";
import { type HoldingEvent, type HoldingPhase, nextHolding } from "../model/holding.js";
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
  readonly attached: boolean;
  readonly inFlight: number;
  overlaps(other: FileUser): boolean;
  verify(facts: FileFacts): void;
  fail(failure: DeviceFailure): void;
  noteUnusable(message: string): void;
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
  /** By the identity of the file: all names under which it is held. */
  readonly holders: Map<string, Set<DeviceFile>>;
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
  #looking: Promise<void> | undefined;
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

  /** The file that is held open; undefined when none is. */
  get held(): FileFacts | undefined {
    return this.#opened;
  }

  /** What the path named when it was last looked at; undefined when it never could be. */
  get seen(): FileFacts | undefined {
    return this.#seen;
  }

  /** Why the path does not name the file that is held any more; undefined while it does, or none is held. */
  get changed(): string | undefined {
    return this.#changed;
  }

  /** Whether the path names another file than the one that is held. */
  get replaced(): boolean {
    return this.#opened !== undefined && this.#seen !== undefined && this.#difference(this.#opened) !== undefined;
  }

  /** Looks again at what is wanted and what is in flight, and opens or closes accordingly. */
  reconcile(): void {
    // A device that became wanted while the file was open for others has not been held against it yet.
    if (this.#opened && (this.#phase === "open" || this.#phase === "draining")) this.#verify(this.#opened);
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
    const wanted = this.devices.some((device) => device.holds);
    const idle = this.devices.every((device) => device.inFlight === 0);
    const next = nextHolding(this.#phase, event, { wanted, idle });
    if (next.phase !== this.#phase) this.#phaseSinceMs = this.#options.clock.monotonicMs();
    this.#phase = next.phase;
    if (next.effect === "open") void this.#open();
    if (next.effect === "close") void this.#close();
    this.#options.changes.touch();
  }

  async #open(): Promise<void> {
    const { opener, holders, log } = this.#options;
    try {
      this.#opened = await opener.open(this.path);
    } catch (error) {
      const message = messageOf(error);
      for (const device of this.devices) if (device.holds) device.fail({ outcome: "io_error", message });
      // Tried again from time to time: once is enough.
      if (message !== this.#openError) log.error({ path: this.path, error: message }, "a device file cannot be opened");
      this.#openError = message;
      this.#apply("open_failed");
      return;
    }
    this.#openError = "";
    const names = holders.get(this.#opened.identity) ?? new Set();
    holders.set(this.#opened.identity, names.add(this));
    const before = this.#seen;
    this.#seen = this.#opened;
    this.#changed = undefined;
    this.#verify(this.#opened);
    log.info({ path: this.path }, "device file opened");
    this.#apply("opened");
    if (!sameFacts(before, this.#seen)) this.#options.onChange();
  }

  #verify(opened: OpenedFile): void {
    for (const device of this.devices) {
      if (!device.holds) continue;
      device.verify(opened);
      const other = device.holds ? this.#onSameBytes(device, opened) : undefined;
      if (other) device.fail({ outcome: "io_error", message: sameBytes(device, other) });
    }
  }

  /** A device that is held and shares bytes with this one, under this name of the file or another. */
  #onSameBytes(device: FileUser, { identity }: OpenedFile): FileUser | undefined {
    for (const file of this.#options.holders.get(identity) ?? [])
      for (const other of file.devices) if (other !== device && other.attached && device.overlaps(other)) return other;
    return undefined;
  }

  async #close(): Promise<void> {
    const { holders, log } = this.#options;
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
    const names = opened && holders.get(opened.identity);
    if (names?.delete(this) && names.size === 0) holders.delete(opened?.identity ?? "");
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

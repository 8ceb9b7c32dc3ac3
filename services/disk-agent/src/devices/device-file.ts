import { messageOf } from "@diskmesh/domain";
import type { Condition } from "../condition.js";
import type { Log } from "../log.js";
import { type HoldingEvent, type HoldingPhase, nextHolding } from "../model/holding.js";
import type { Device } from "./device.js";
import type { FileOpener, OpenedFile, OpenHandle } from "./open-file.js";

/** One path and its one descriptor, shared by all devices on it; closed with the last of them. */
export class DeviceFile {
  readonly path: string;
  readonly devices: Device[] = [];
  readonly #opener: FileOpener;
  readonly #condition: Condition;
  readonly #log: Log;
  #phase: HoldingPhase = "closed";
  #opened: OpenedFile | undefined;

  constructor(options: { path: string; opener: FileOpener; condition: Condition; log: Log }) {
    this.path = options.path;
    this.#opener = options.opener;
    this.#condition = options.condition;
    this.#log = options.log;
  }

  get phase(): HoldingPhase {
    return this.#phase;
  }

  /** The descriptor that new I/O may use; undefined when there is none. */
  get handle(): OpenHandle | undefined {
    return this.#phase === "open" ? this.#opened?.handle : undefined;
  }

  /** Looks again at what is wanted and what is in flight, and opens or closes accordingly. */
  reconcile(): void {
    // A device that became wanted while the file was open for others has not been held against it yet.
    if (this.#opened && (this.#phase === "open" || this.#phase === "draining")) this.#verify(this.#opened);
    this.#apply("changed");
  }

  /** Whether the path still names the file that is held open. */
  async isSameFile(): Promise<boolean> {
    const held = this.#opened?.identity;
    const now = await this.#opener.look(this.path).catch(() => undefined);
    return held === undefined || now?.identity === held;
  }

  #apply(event: HoldingEvent): void {
    const wanted = this.devices.some((device) => device.holds);
    const idle = this.devices.every((device) => device.inFlight === 0);
    const next = nextHolding(this.#phase, event, { wanted, idle });
    this.#phase = next.phase;
    if (next.effect === "open") void this.#open();
    if (next.effect === "close") void this.#close();
    this.#condition.notify();
  }

  async #open(): Promise<void> {
    try {
      this.#opened = await this.#opener.open(this.path);
    } catch (error) {
      for (const device of this.devices)
        if (device.holds) device.fail({ outcome: "io_error", message: messageOf(error) });
      this.#log.error({ path: this.path, error: messageOf(error) }, "a device file cannot be opened");
      this.#apply("open_failed");
      return;
    }
    this.#verify(this.#opened);
    this.#log.info({ path: this.path }, "device file opened");
    this.#apply("opened");
  }

  #verify(opened: OpenedFile): void {
    for (const device of this.devices) if (device.holds) device.verify(opened.sizeBytes);
  }

  async #close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    try {
      await opened?.handle.close();
      this.#log.info({ path: this.path }, "device file closed");
    } catch (error) {
      // Linux has given the descriptor back even when close reports an error of earlier writes.
      this.#log.error({ path: this.path, error: messageOf(error) }, "closing a device file reported an error");
    }
    this.#apply("closed");
  }
}

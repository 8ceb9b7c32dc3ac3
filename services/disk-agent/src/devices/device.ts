import {
  type DeviceId,
  DeviceIoError,
  InvalidArgumentError,
  messageOf,
  OutdatedError,
  UnavailableError,
} from "@diskmesh/domain";
import type { Ledger } from "../cache/ledger.js";
import type { Condition } from "../condition.js";
import { isCurrentSession, superseded } from "../model/sessions.js";
import type { DeviceFile } from "./device-file.js";
import type { OpenHandle } from "./open-file.js";
import { Slots } from "./slots.js";

/** A device as the agent's configuration describes it. */
export interface DeviceConfig {
  readonly deviceId: DeviceId;
  readonly path: string;
  readonly offsetBytes: number;
  /** Undefined: all of the file from the offset on. */
  readonly sizeBytes?: number | undefined;
  readonly blockSizeBytes: number;
  readonly serialNumber: string;
  readonly pool: string;
}

export interface DeviceFailure {
  readonly outcome: "io_error" | "device_changed";
  readonly message: string;
}

/**
 * One device: whether it is held, its sessions, and all I/O on it. Every byte that is read or written passes `#io`, which
 * checks the device and the session at the moment the operating system is asked.
 */
export class Device {
  readonly config: DeviceConfig;
  readonly file: DeviceFile;
  readonly #ledger: Ledger;
  readonly #condition: Condition;
  readonly #slots: Slots;
  readonly #inFlightBySession = new Map<number, number>();
  #wanted = false;
  #failure: DeviceFailure | undefined;
  #ioError: string | undefined;
  #sizeBytes: number;
  #grantedSession = 0;
  /** The session in which the operating system failed to put acknowledged writes onto the device. */
  #unflushedSession = 0;
  #stream: AbortController | undefined;

  constructor(
    config: DeviceConfig,
    file: DeviceFile,
    options: { ledger: Ledger; condition: Condition; maxInFlightIo: number },
  ) {
    this.config = config;
    this.file = file;
    this.#ledger = options.ledger;
    this.#condition = options.condition;
    this.#slots = new Slots(options.maxInFlightIo);
    this.#sizeBytes = config.sizeBytes ?? 0;
    file.devices.push(this);
  }

  get id(): DeviceId {
    return this.config.deviceId;
  }

  /** 0 while the size comes from a file that could not be looked at yet. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Whether the file is to be open for this device: ordered so, and not found unusable. */
  get holds(): boolean {
    return this.#wanted && this.#failure === undefined;
  }

  get attached(): boolean {
    return this.holds && this.file.phase === "open";
  }

  /** Nothing is open for this device and no open is under way for it, so a detach of it is done. */
  get released(): boolean {
    const othersHold = this.file.devices.some((device) => device.holds);
    return !this.#wanted && this.inFlight === 0 && (this.file.phase === "closed" || othersHold);
  }

  get failure(): DeviceFailure | undefined {
    return this.#failure;
  }

  /** What is wrong with the device; undefined when nothing is known to be. */
  get healthMessage(): string | undefined {
    return this.#failure?.message ?? this.#ioError;
  }

  get inFlight(): number {
    let total = 0;
    for (const count of this.#inFlightBySession.values()) total += count;
    return total;
  }

  /** Starts to hold the device, or tries again after a failure. */
  attach(): void {
    this.#wanted = true;
    this.#failure = undefined;
    this.file.reconcile();
  }

  /** Refuses new I/O at once and lets go of the file when what is in flight has ended. */
  detach(): void {
    this.#wanted = false;
    this.#failure = undefined;
    this.file.reconcile();
  }

  /** Gives the device up for this attempt. */
  fail(failure: DeviceFailure): void {
    this.#failure = failure;
    this.#condition.notify();
  }

  /** Notes what a look at a file that is not open found. */
  noteUnusable(message: string): void {
    this.#ioError = message;
  }

  /** Holds the device against the size of its file; a file that is too short makes it fail. */
  verify(fileSizeBytes: number): void {
    const { offsetBytes, blockSizeBytes, path } = this.config;
    const rest = Math.max(0, fileSizeBytes - offsetBytes);
    const sizeBytes = this.config.sizeBytes ?? rest - (rest % blockSizeBytes);
    if (sizeBytes > rest || sizeBytes === 0) {
      const needed = this.config.sizeBytes === undefined ? `more than ${offsetBytes}` : `${offsetBytes + sizeBytes}`;
      const message = `device file ${JSON.stringify(path)} is too short for device ${this.id}: it holds ${fileSizeBytes} bytes, and ${needed} are needed`;
      this.#failure = { outcome: "io_error", message };
      return;
    }
    this.#sizeBytes = sizeBytes;
    this.#ioError = undefined;
  }

  /** Whether all I/O submitted under lower sessions has ended. */
  isQuietBelow(sessionNumber: number): boolean {
    for (const number of this.#inFlightBySession.keys()) if (number < sessionNumber) return false;
    return true;
  }

  /** Lets a session that is durable, current and has nobody below it do I/O. */
  grant(sessionNumber: number): void {
    this.#grantedSession = sessionNumber;
  }

  get grantedSession(): number {
    return this.#grantedSession;
  }

  /** Throws unless the session may do I/O on the device now. */
  checkAccess(sessionNumber: number): void {
    this.#admit(sessionNumber);
  }

  /**
   * Makes a stream the only one of its session: an earlier one is told to stop. The new one may begin once `isQuietBelow`
   * the next session number: a holder that lost its connection and sends a write again thereby never finds the first
   * one landing after a later write.
   */
  replaceStream(sessionNumber: number, stream: AbortController): void {
    this.#admit(sessionNumber);
    this.#stream?.abort(new UnavailableError(`another stream was opened to device ${this.id}`));
    this.#stream = stream;
  }

  leaveStream(stream: AbortController): void {
    if (this.#stream === stream) this.#stream = undefined;
  }

  async read(sessionNumber: number, offsetBytes: number, lengthBytes: number): Promise<Buffer> {
    this.#checkRange("read", offsetBytes, lengthBytes);
    const data = Buffer.allocUnsafe(lengthBytes);
    const start = this.config.offsetBytes + offsetBytes;
    await this.#io(sessionNumber, undefined, async (handle) => {
      for (let done = 0; done < lengthBytes; ) {
        const { bytesRead } = await handle.read(data, done, lengthBytes - done, start + done);
        if (bytesRead === 0) throw new Error(`the file ends at byte ${start + done}`);
        done += bytesRead;
      }
    });
    return data;
  }

  /** With `fua` it resolves only once the bytes are on the device. `signal` withdraws a write that was not submitted yet. */
  async write(
    sessionNumber: number,
    offsetBytes: number,
    data: Uint8Array,
    options: { fua: boolean; signal?: AbortSignal },
  ): Promise<void> {
    this.#checkRange("write", offsetBytes, data.length);
    const start = this.config.offsetBytes + offsetBytes;
    await this.#io(sessionNumber, options.signal, async (handle) => {
      for (let done = 0; done < data.length; ) {
        const { bytesWritten } = await handle.write(data, done, data.length - done, start + done);
        done += bytesWritten;
      }
      if (options.fua) await this.#sync(sessionNumber, handle);
    });
  }

  /** Resolves once everything that was acknowledged is on the device. */
  async flush(sessionNumber: number): Promise<void> {
    await this.#io(sessionNumber, undefined, (handle) => this.#sync(sessionNumber, handle));
  }

  // After a failed sync the kernel forgets which pages were lost, and the next sync succeeds: the session must not
  // believe it.
  async #sync(sessionNumber: number, handle: OpenHandle): Promise<void> {
    if (this.#unflushedSession === sessionNumber)
      throw new Error("acknowledged writes were lost earlier in this session");
    try {
      await handle.datasync();
    } catch (error) {
      this.#unflushedSession = sessionNumber;
      throw error;
    }
  }

  async #io(
    sessionNumber: number,
    signal: AbortSignal | undefined,
    submit: (handle: OpenHandle) => Promise<void>,
  ): Promise<void> {
    const release = await this.#slots.acquire();
    try {
      if (signal?.aborted) throw signal.reason;
      const handle = this.#admit(sessionNumber);
      this.#inFlightBySession.set(sessionNumber, (this.#inFlightBySession.get(sessionNumber) ?? 0) + 1);
      try {
        await submit(handle);
      } catch (error) {
        this.#ioError = `I/O on device ${this.id} failed: ${messageOf(error)}`;
        throw new DeviceIoError(this.#ioError, { about: { device_id: this.id }, cause: error });
      } finally {
        this.#ended(sessionNumber);
      }
    } finally {
      release();
    }
  }

  #ended(sessionNumber: number): void {
    const left = (this.#inFlightBySession.get(sessionNumber) ?? 0) - 1;
    if (left > 0) this.#inFlightBySession.set(sessionNumber, left);
    else this.#inFlightBySession.delete(sessionNumber);
    if (!this.holds) this.file.reconcile();
    this.#condition.notify();
  }

  #admit(sessionNumber: number): OpenHandle {
    const about = { device_id: this.id };
    const current = this.#ledger.memory.devices.get(this.id)?.session;
    if (current === undefined || current.number < sessionNumber)
      throw new UnavailableError(`session ${sessionNumber} of device ${this.id} was not opened here`, { about });
    if (!isCurrentSession(this.#ledger.memory, this.id, sessionNumber))
      throw new OutdatedError(superseded(this.id, sessionNumber, current), { about });
    const handle = this.file.handle;
    if (handle === undefined || !this.holds) throw new UnavailableError(`device ${this.id} is not attached`, { about });
    if (this.#grantedSession !== sessionNumber)
      throw new UnavailableError(`session ${sessionNumber} of device ${this.id} is not granted yet`, { about });
    return handle;
  }

  #checkRange(what: string, offsetBytes: number, lengthBytes: number): void {
    const inside =
      Number.isSafeInteger(offsetBytes) &&
      offsetBytes >= 0 &&
      lengthBytes >= 0 &&
      offsetBytes + lengthBytes <= this.#sizeBytes;
    if (!inside)
      throw new InvalidArgumentError(
        `${what} of ${lengthBytes} bytes at ${offsetBytes} is outside device ${this.id} of ${this.#sizeBytes} bytes`,
        { about: { device_id: this.id } },
      );
  }
}

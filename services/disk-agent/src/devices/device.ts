import {
  type DeviceId,
  DeviceIoError,
  type FileMarks,
  type Logger,
  messageOf,
  UnavailableError,
} from "@diskmesh/domain";
import { type Changes, type Clock, Slots } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import { notAttached, requireAccess, whyNotKept } from "./access.js";
import { Borrower } from "./borrower.js";
import type { DeviceFailure, DeviceFile, FileUser } from "./device-file.js";
import { type DeviceConfig, growthOf, requireInside, sizeIn, whyUnfit } from "./device-place.js";
import { type DeviceProblem, type HangLimits, hangOf, isHardwareError } from "./device-problem.js";
import { DriverWarnings } from "./driver-warnings.js";
import {
  type ClearChunk,
  type ClearOptions,
  clearBytes,
  readBytes,
  type WriteOptions,
  writeBytes,
} from "./file-bytes.js";
import type { LentFile, Retired } from "./file-lending.js";
import type { HardwareErrors } from "./hardware-errors.js";
import type { ByteRange } from "./held-bytes.js";
import { InFlight, NO_SESSION, type Waiting } from "./in-flight.js";
import { LostWrites } from "./lost-writes.js";
import type { FileFacts, OpenHandle } from "./open-file.js";
import { type DeviceOperation, OperationSums } from "./operation-sums.js";

interface DeviceOptions {
  readonly ledger: Ledger;
  readonly hardwareErrors: HardwareErrors;
  readonly retired: Retired;
  readonly changes: Changes<void>;
  readonly maxInFlightIo: number;
  readonly clock: Clock;
  readonly hangs: HangLimits;
  readonly log: Logger;
}

type Withdrawable<Options> = Options & { readonly signal?: AbortSignal };
type Submit = (handle: OpenHandle) => Promise<void>;

/**
 * One device: its state, its sessions and all its I/O. Every read or write goes through `#io`, which checks device and
 * session right before the system call.
 */
export class Device implements FileUser {
  readonly config: DeviceConfig;
  readonly file: DeviceFile;
  readonly driverWarnings = new DriverWarnings();
  readonly sums = new OperationSums();
  readonly #options: DeviceOptions;
  readonly #slots: Slots;
  readonly #inFlight: InFlight;
  readonly #lostWrites = new LostWrites();
  /** Process outside the agent that reads and writes the device. */
  readonly borrower: Borrower;
  #probesInFlight = 0;
  #probeProblem: DeviceProblem | undefined;
  #wanted = false;
  #failure: DeviceFailure | undefined;
  #ioError: string | undefined;
  #sizeBytes: number;
  #grantedSession = 0;
  #connection: AbortController | undefined;

  constructor(config: DeviceConfig, file: DeviceFile, options: DeviceOptions) {
    this.config = config;
    this.file = file;
    this.#options = options;
    this.#slots = new Slots(options.maxInFlightIo);
    this.#inFlight = new InFlight(options.clock);
    this.borrower = new Borrower({ ...options, deviceId: config.deviceId });
    this.#sizeBytes = config.sizeBytes ?? 0;
    file.devices.push(this);
  }

  get id(): DeviceId {
    return this.config.deviceId;
  }

  /** Size in bytes; 0 while it depends on a file that could not be read yet. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** True when the device needs its file open: it is wanted, and has not failed. */
  get holds(): boolean {
    return this.#wanted && this.#failure === undefined;
  }

  /** True when the device was ordered attached, or was never ordered detached. */
  get wanted(): boolean {
    return this.#wanted;
  }

  get attached(): boolean {
    return this.holds && this.file.phase === "open";
  }

  /**
   * True when the detach is complete: the device has no I/O in flight, and its file is closed or open for other devices
   * only.
   */
  get released(): boolean {
    const isUnused = this.inFlight === 0 && !this.borrower.isThere;
    return !this.#wanted && isUnused && (this.file.phase === "closed" || this.file.isHeld);
  }

  get failure(): DeviceFailure | undefined {
    return this.#failure;
  }

  /** Known problem of the device, including a remembered hardware error; undefined for none. */
  get problem(): DeviceProblem | undefined {
    const unreported = this.#options.ledger.memory.devices.get(this.id)?.hardwareError;
    return unreported === undefined ? this.problemNow : { level: "ERROR", message: unreported };
  }

  /**
   * Present problem of the device; undefined for none. Remembered hardware errors are excluded, because the registry is
   * sent these separately, with their times.
   */
  get problemNow(): DeviceProblem | undefined {
    const error = this.#failure?.message ?? this.#ioError ?? (this.#wanted ? this.changed : undefined);
    if (error !== undefined) return { level: "ERROR", message: error };
    if (this.borrower.problem !== undefined) return this.borrower.problem;
    const hang = this.#hang;
    if (hang?.level === "ERROR") return hang;
    const growth = this.#wanted ? growthOf(this.config, this.#sizeBytes, this.file.seen) : undefined;
    return this.#probeProblem ?? hang ?? growth ?? this.driverWarnings.problem;
  }

  get #hang(): DeviceProblem | undefined {
    const what = this.#inFlight.count > 0 ? "I/O on" : `the ${this.file.phase} of`;
    return hangOf(`${what} device ${this.id}`, this.waiting.forMs, this.#options.hangs);
  }

  /** Oldest system call for which a close or an open waits. */
  get waiting(): Waiting {
    const nowMs = this.#options.clock.monotonicMs();
    const sinceMs = Math.min(this.#inFlight.oldestSinceMs ?? nowMs, this.file.busySinceMs ?? nowMs);
    return { forMs: nowMs - sinceMs, inFlightOperations: this.inFlight };
  }

  /** Returns the I/O of lower sessions, for which a grant waits. */
  waitingBelow(sessionNumber: number): Waiting {
    return this.borrower.waitingBelow(sessionNumber) ?? this.#inFlight.waitingBelow(sessionNumber);
  }

  /**
   * Reason why the path does not name the held file; undefined while it does. A file that grew, or shrank outside the
   * device, counts as the same.
   */
  get changed(): string | undefined {
    const { changed, seen, isOnlyResized } = this.file;
    // Fast path: every I/O calls this, and the path nearly always names the held file.
    if (changed === undefined) return undefined;
    const hasAllBytes = isOnlyResized && seen && sizeIn(seen.sizeBytes, this.config) >= this.#sizeBytes;
    return hasAllBytes ? undefined : changed;
  }

  /**
   * True when the path names another file than the held one, or the file has lost bytes of the device. I/O stops then.
   */
  get replaced(): boolean {
    return this.changed !== undefined && this.file.replaced;
  }

  /** Reason why no session may be granted; undefined when the file is the recorded one. */
  get whyChanged(): string | undefined {
    if (this.#failure?.outcome === "device_changed") return this.#failure.message;
    return this.replaced ? this.changed : undefined;
  }

  /** Facts of the file that the path names now, for the registry. The held file may be another one. */
  get reported(): FileMarks & { readonly sizeBytes: number; readonly fileIdentity: string } {
    const { seen } = this.file;
    const sizeBytes = (seen && sizeIn(seen.sizeBytes, this.config)) || this.#sizeBytes;
    return { sizeBytes, serialNumber: seen?.serialNumber ?? "", fileIdentity: seen?.identity ?? "" };
  }

  get inFlight(): number {
    return this.#inFlight.count;
  }

  /** Sets `wanted` and `failure`, which together decide whether the device needs its file open. */
  #want(wanted: boolean, failure: DeviceFailure | undefined): void {
    this.#wanted = wanted;
    this.#failure = failure;
    this.file.noteHolds(this);
  }

  /** Starts to hold the device, or tries again after a failure. */
  attach(): void {
    // The failure stays reported until the file has been verified.
    this.#ioError = this.#failure?.message ?? this.#ioError;
    this.#want(true, undefined);
    this.file.reconcile();
  }

  /** Tries again after a failure whose cause may be gone. */
  retry(): void {
    if (this.#wanted && this.#failure?.outcome === "io_error") this.attach();
  }

  get range(): ByteRange {
    const { offsetBytes: startBytes } = this.config;
    return { startBytes, endBytes: startBytes + this.#sizeBytes };
  }

  /** Refuses new I/O at once, and closes the file when the I/O in flight has ended. */
  detach(): void {
    this.#want(false, undefined);
    if (this.#probesInFlight === 0) this.#probeProblem = undefined;
    this.file.reconcile();
  }

  /** Records why the device cannot be held. The device then no longer needs its file open. */
  fail(failure: DeviceFailure): void {
    this.#want(this.#wanted, failure);
    this.#options.changes.touch();
  }

  /** Records the result of a check without an open. */
  noteUnusable(message: string): void {
    this.#ioError = message;
  }

  /**
   * Verifies the device against its file. A file that is too short or is not the recorded one fails the device, because
   * after a power failure another drive may be in its place while a session continues.
   */
  verify(facts: FileFacts): void {
    const recorded = this.#options.ledger.memory.devices.get(this.id)?.identity;
    const unfit = whyUnfit(facts, this.config, recorded);
    if (unfit !== undefined) {
      this.#want(this.#wanted, unfit);
      return;
    }
    if (!this.#wanted) this.#failure = undefined;
    // Uses the recorded size; grown bytes belong to the device only once the registry accepts them.
    this.#sizeBytes = recorded?.sizeBytes || sizeIn(facts.sizeBytes, this.config);
    this.#ioError = undefined;
  }

  /** Reads one block at a relative position of the device, in [0, 1]. Resolves when the system call returns. */
  async probe(part: number): Promise<void> {
    const { handle } = this.file;
    if (handle === undefined || !this.holds) return;
    const { blockSizeBytes, offsetBytes } = this.config;
    const block = Math.floor(part * Math.floor(this.#sizeBytes / blockSizeBytes));
    const ended = this.#begin(NO_SESSION, "read");
    this.#probesInFlight += 1;
    try {
      const buffer = Buffer.allocUnsafe(blockSizeBytes);
      const { bytesRead } = await handle.read(buffer, 0, blockSizeBytes, offsetBytes + block * blockSizeBytes);
      if (bytesRead === 0) throw this.#endsAt(offsetBytes + block * blockSizeBytes);
      this.#probeProblem = undefined;
      this.#ioError = undefined;
    } catch (error) {
      this.sums.countError("read");
      const message = `reading block ${block} of device ${this.id} failed: ${messageOf(error)}`;
      if (isHardwareError(error)) this.#options.hardwareErrors.note(this.id, message);
      else this.#probeProblem = { level: "ERROR", message };
    } finally {
      this.#probesInFlight -= 1;
      ended();
    }
  }

  noteSlowProbe(problem: DeviceProblem): void {
    this.#probeProblem = problem;
  }

  /** Returns whether all I/O submitted under lower sessions has ended, and the processes of these sessions. */
  isQuietBelow(sessionNumber: number): boolean {
    return this.borrower.isGoneBelow(sessionNumber) && this.#inFlight.isQuietBelow(sessionNumber);
  }

  /**
   * Allows I/O in a session. The session must be durable and current, and the I/O of lower sessions must have ended.
   */
  grant(sessionNumber: number): void {
    this.#grantedSession = sessionNumber;
  }

  noteOpened(handle: OpenHandle): void {
    this.borrower.endStray(handle.lending, this.config.offsetBytes);
  }

  /** Lends the device to a process of the session. Throws as `checkAccess` does. */
  lend(sessionNumber: number): LentFile {
    return this.borrower.lend(sessionNumber, this.#admit(sessionNumber).lending, this.config.offsetBytes);
  }

  /** Returns why a process of the session must no longer have the device; undefined when it may. */
  refusalOf(sessionNumber: number): string | undefined {
    return whyNotKept(this, this.#options.ledger.memory, sessionNumber);
  }

  get grantedSession(): number {
    return this.#grantedSession;
  }

  /** Throws unless the session may do I/O on the device now. */
  checkAccess(sessionNumber: number): void {
    this.#admit(sessionNumber);
  }

  /**
   * Makes a holder's connection the only one of its session, and aborts the former one. The new connection may begin
   * once `isQuietBelow(sessionNumber + 1)` is true. So a write that is sent again after a lost connection never lands
   * before its first copy has ended.
   */
  replaceConnection(sessionNumber: number, connection: AbortController): void {
    this.#admit(sessionNumber);
    this.#connection?.abort(new UnavailableError(`another connection was opened to device ${this.id}`));
    this.#connection = connection;
  }

  leaveConnection(connection: AbortController): void {
    if (this.#connection === connection) this.#connection = undefined;
  }

  async read(sessionNumber: number, offsetBytes: number, lengthBytes: number): Promise<Buffer> {
    requireInside("read", offsetBytes, lengthBytes, this);
    const data = Buffer.allocUnsafe(lengthBytes);
    const start = this.config.offsetBytes + offsetBytes;
    await this.#io("read", sessionNumber, undefined, async (handle) => {
      const doneBytes = await readBytes(handle, start, data);
      if (doneBytes < lengthBytes) throw this.#endsAt(start + doneBytes);
    });
    return data;
  }

  /**
   * With `fua`, resolves only once the bytes are on the device. `signal` withdraws a write that was not submitted yet.
   */
  async write(sessionNumber: number, offsetBytes: number, data: Uint8Array, options: Withdrawable<WriteOptions>) {
    requireInside("write", offsetBytes, data.length, this);
    const start = this.config.offsetBytes + offsetBytes;
    await this.#io("write", sessionNumber, options.signal, async (handle) => {
      this.#lostWrites.noteWrite(sessionNumber);
      await writeBytes(handle, start, data);
      if (options.fua) await this.#sync(sessionNumber, handle);
    });
  }

  /**
   * Clears bytes, at most MAX_CLEAR_BYTES. `signal` withdraws an operation that was not submitted yet.
   */
  async clear(sessionNumber: number, { startBytes, sizeBytes }: ClearChunk, options: Withdrawable<ClearOptions>) {
    requireInside("clear", startBytes, sizeBytes, this);
    const start = this.config.offsetBytes + startBytes;
    await this.#io("clear", sessionNumber, options.signal, async (handle) => {
      this.#lostWrites.noteWrite(sessionNumber);
      await clearBytes(handle, start, sizeBytes, options.kind);
      if (options.fua) await this.#sync(sessionNumber, handle);
    });
  }

  /** Resolves once all acknowledged writes are on the device. */
  async flush(sessionNumber: number): Promise<void> {
    await this.#io("flush", sessionNumber, undefined, (handle) => this.#sync(sessionNumber, handle));
  }

  /** Notes that the file has shrunk. All I/O stops: a write would extend the file again, with zeros in between. */
  #endsAt(position: number): Error {
    void this.file.look();
    return new Error(`the file ends at byte ${position}`);
  }

  noteLostWrites(): void {
    this.#lostWrites.noteLoss();
  }

  #sync(sessionNumber: number, handle: OpenHandle): Promise<void> {
    return this.#lostWrites.sync(sessionNumber, () => this.file.sync(handle));
  }

  async #io(operation: DeviceOperation, sessionNumber: number, signal: AbortSignal | undefined, submit: Submit) {
    const release = await this.#slots.acquire();
    try {
      if (signal?.aborted) throw signal.reason;
      const handle = this.#admit(sessionNumber);
      const ended = this.#begin(sessionNumber, operation);
      try {
        await submit(handle);
        this.#ioError = undefined;
      } catch (error) {
        this.sums.countError(operation);
        const message = `I/O on device ${this.id} failed: ${messageOf(error)}`;
        if (isHardwareError(error)) this.#options.hardwareErrors.note(this.id, message);
        else this.#ioError = message;
        throw new DeviceIoError(message, { about: { device_id: this.id }, cause: error });
      } finally {
        ended();
      }
    } finally {
      release();
    }
  }

  /** Counts an operation as begun; returns the function to call when it has ended. */
  #begin(sessionNumber: number, operation: DeviceOperation): () => void {
    const ended = this.#inFlight.begin(sessionNumber);
    this.file.noteInFlight(1);
    return () => {
      this.sums.count(operation, ended());
      this.file.noteInFlight(-1);
      if (!this.holds) this.file.reconcile();
      this.#options.changes.touch();
    };
  }

  #admit(sessionNumber: number): OpenHandle {
    requireAccess(this, this.#options.ledger.memory, sessionNumber);
    const { handle } = this.file;
    if (handle === undefined) throw notAttached(this.id);
    return handle;
  }
}

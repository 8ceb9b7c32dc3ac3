import { type DeviceId, DeviceIoError, type FileMarks, messageOf } from "@diskmesh/domain";
import { Slots } from "@diskmesh/service";
import type { DeviceOperation } from "../base/metrics.js";
import type { DeviceFailure, DeviceFile, FileUser } from "../files/device-file.js";
import {
  type ClearChunk,
  type ClearOptions,
  clearBytes,
  readBytes,
  readUpTo,
  type WriteOptions,
  writeBytes,
  writeDurably,
} from "../files/file-bytes.js";
import { BELOW_SESSIONS, InFlight, NO_SESSION, type Waiting } from "../files/in-flight.js";
import { Legs } from "../files/legs.js";
import type { FileFacts, OpenHandle } from "../files/open-file.js";
import type { ByteRange } from "../model/held-bytes.js";
import { LABEL_BYTES } from "../model/label.js";
import { endOf, type Run, WHOLE_DEVICE } from "../model/runs.js";
import { type Access, notAttached, requireAccess, whyNotKept } from "./access.js";
import type { DeviceOptions } from "./device-options.js";
import { type DeviceConfig, growthOf, requireInside, sizeIn, whyUnfit } from "./device-place.js";
import { type DeviceProblem, hangOf, isHardwareError } from "./device-problem.js";
import { DriverWarnings } from "./driver-warnings.js";
import { GrantedRuns } from "./granted-runs.js";
import { LabelCheck } from "./label-check.js";
import { LostWrites } from "./lost-writes.js";
import { OperationSums } from "./operation-sums.js";

type Withdrawable<Options> = Options & { readonly signal?: AbortSignal };
type Submit = (handle: OpenHandle) => Promise<void>;

type Io = Access & { readonly operation: DeviceOperation };

/**
 * One device: its state, its sessions and all its I/O. Every read or write goes through `#io`, which checks device and
 * session right before the system call.
 */
export class Device implements FileUser {
  /** Place of the device, which `DeviceTable.move` alone changes. */
  config: DeviceConfig;
  file: DeviceFile;
  readonly driverWarnings = new DriverWarnings();
  readonly sums = new OperationSums();
  /** Number of operations of sessions that began in the label's bytes and have ended. */
  labelOperations = 0;
  readonly #options: DeviceOptions;
  readonly #slots: Slots;
  /** The agent's own I/O. */
  readonly io: InFlight;
  readonly #lostWrites = new LostWrites();
  readonly granted: GrantedRuns;
  /** Block devices of sessions, where the kernel carries the bytes. */
  readonly legs: Legs;
  readonly label: LabelCheck;
  #probesInFlight = 0;
  #probeProblem: DeviceProblem | undefined;
  #wanted = false;
  #failure: DeviceFailure | undefined;
  #ioError: string | undefined;
  #sizeBytes: number;

  constructor(config: DeviceConfig, file: DeviceFile, options: DeviceOptions) {
    this.config = config;
    this.file = file;
    this.#options = options;
    this.#slots = new Slots(options.maxInFlightIoPerDevice);
    this.io = new InFlight(options.clock);
    this.granted = new GrantedRuns(config.deviceId);
    this.legs = new Legs(this, options);
    this.label = new LabelCheck(this, options);
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

  get wanted(): boolean {
    return this.#wanted;
  }

  get attached(): boolean {
    return this.holds && this.file.phase === "open" && !this.label.isPending;
  }

  /** True when the device does not use its file: no I/O is in flight, and the file is closed or open for others only. */
  get released(): boolean {
    const isUsed = this.holds || this.inFlight > 0 || this.legs.areThere;
    return !isUsed && (this.file.phase === "closed" || this.file.isHeld);
  }

  get failure(): DeviceFailure | undefined {
    return this.#failure;
  }

  /** Known problem of the device, including a remembered hardware error; undefined for none. */
  get problem(): DeviceProblem | undefined {
    const unreported = this.#options.ledger.memory.devices.get(this.id)?.hardwareError;
    return unreported === undefined ? this.problemNow : { level: "ERROR", message: unreported };
  }

  /** Present problem of the device; undefined for none. Remembered hardware errors, which have times, are sent apart. */
  get problemNow(): DeviceProblem | undefined {
    const error = this.#failure?.message ?? this.#ioError ?? (this.#wanted ? this.changed : undefined);
    if (error !== undefined) return { level: "ERROR", message: error };
    const hang = this.#hang;
    if (hang?.level === "ERROR") return hang;
    const growth = this.#wanted ? growthOf(this.config, this.#sizeBytes, this.file.seen) : undefined;
    return this.label.problem ?? this.#probeProblem ?? hang ?? growth ?? this.driverWarnings.problem;
  }

  get #hang(): DeviceProblem | undefined {
    const what = this.io.count > 0 || this.legs.fencesForMs > 0 ? "I/O on" : `the ${this.file.phase} of`;
    return hangOf(`${what} device ${this.id}`, this.waiting.forMs, this.#options.hangs);
  }

  /** Oldest system call for which a close or an open waits. */
  get waiting(): Waiting {
    const nowMs = this.#options.clock.monotonicMs();
    const sinceMs = Math.min(this.io.oldestSinceMs ?? nowMs, this.file.busySinceMs ?? nowMs);
    return { forMs: Math.max(nowMs - sinceMs, this.legs.fencesForMs), inFlightOperations: this.inFlight };
  }

  /**
   * Reason why the path does not name the held file; undefined while it does. A file that grew, or shrank outside the
   * device, counts as the same.
   */
  get changed(): string | undefined {
    const { changed, seen, isOnlyResized } = this.file;
    // Fast path: every I/O calls this, and the path nearly always names the held file.
    if (changed === undefined) return undefined;
    return isOnlyResized && seen && sizeIn(seen.sizeBytes, this.config) >= this.#sizeBytes ? undefined : changed;
  }

  /** True when the path names another file than the held one, or the file has lost bytes of the device: I/O stops. */
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
    return this.io.count;
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
    return { startBytes: this.config.offsetBytes, endBytes: this.config.offsetBytes + this.#sizeBytes };
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
    if (unfit !== undefined) return void this.#want(this.#wanted, unfit);
    if (!this.#wanted) this.#failure = undefined;
    // Uses the recorded size; grown bytes belong to the device only once the registry accepts them.
    this.#sizeBytes = recorded?.sizeBytes || sizeIn(facts.sizeBytes, this.config);
    this.#ioError = undefined;
  }

  /** Reads one block at a relative position of the device, in [0, 1], and its label. Resolves when the system calls return. */
  async probe(part: number): Promise<void> {
    if (this.file.handle === undefined || !this.holds) return;
    const { blockSizeBytes, offsetBytes } = this.config;
    const block = Math.floor(part * Math.floor(this.#sizeBytes / blockSizeBytes));
    let what = `block ${block}`;
    this.#probesInFlight += 1;
    try {
      const bytes = await this.readInNoSession(block * blockSizeBytes, blockSizeBytes);
      if (bytes.length === 0) throw this.#endsAt(offsetBytes + block * blockSizeBytes);
      this.#probeProblem = undefined;
      this.#ioError = undefined;
      what = "the label";
      await this.label.look();
    } catch (error) {
      this.sums.countError("read");
      const message = `reading ${what} of device ${this.id} failed: ${messageOf(error)}`;
      if (isHardwareError(error)) this.#options.hardwareErrors.note(this.id, message);
      else this.#probeProblem = { level: "ERROR", message };
    } finally {
      this.#probesInFlight -= 1;
    }
  }

  /** Reads bytes in no session; fewer where the file ends. `fromDrive` reads past the kernel's cache where that is possible. */
  async readInNoSession(
    offsetBytes: number,
    lengthBytes: number,
    fromDrive = false,
    handle = this.file.handle,
  ): Promise<Buffer> {
    if (handle === undefined || !this.holds) throw notAttached(this.id);
    const ended = this.#begin(NO_SESSION, WHOLE_DEVICE, "read");
    return readUpTo(handle, this.config.offsetBytes + offsetBytes, lengthBytes, fromDrive).finally(ended);
  }

  noteSlowProbe(problem: DeviceProblem): void {
    this.#probeProblem = problem;
  }

  /** Returns whether all I/O of lower sessions of the run's bytes, and the legs of these sessions, have ended. */
  isQuietBelow(sessionNumber: number, run: Run): boolean {
    return this.legs.areGoneBelow(sessionNumber, run) && this.io.isQuietBelow(sessionNumber, run);
  }

  noteOpened(handle: OpenHandle): void {
    this.label.begin(handle);
  }

  /** Returns why a leg of the session must no longer have its run; undefined when it may. */
  refusalOf(sessionNumber: number, offsetBytes: number): string | undefined {
    return whyNotKept(this, this.#options.ledger.memory, sessionNumber, offsetBytes);
  }

  /** Returns the bytes from `offsetBytes` to the end of its run. Throws unless the session may do I/O there now. */
  checkAccess(sessionNumber: number, offsetBytes: number): number {
    this.#admit({ sessionNumber, startBytes: offsetBytes, lengthBytes: 0 });
    return this.grantedBytes(offsetBytes);
  }

  /** Returns the bytes from this offset to the end of its granted run; 0 without one. */
  grantedBytes(offsetBytes: number): number {
    const granted = this.granted.at(offsetBytes);
    return granted === undefined ? 0 : Math.min(endOf(granted), this.#sizeBytes) - offsetBytes;
  }

  async read(sessionNumber: number, offsetBytes: number, lengthBytes: number): Promise<Buffer> {
    requireInside("read", offsetBytes, lengthBytes, this);
    const data = Buffer.allocUnsafe(lengthBytes);
    const start = this.config.offsetBytes + offsetBytes;
    const io = { operation: "read", sessionNumber, startBytes: offsetBytes, lengthBytes } as const;
    await this.#io(io, undefined, async (handle) => {
      const doneBytes = await readBytes(handle, start, data);
      if (doneBytes < lengthBytes) throw this.#endsAt(start + doneBytes);
    });
    return data;
  }

  /** With `fua`, resolves once the bytes are on the device. `signal` withdraws a write that was not submitted yet. */
  async write(sessionNumber: number, offsetBytes: number, data: Uint8Array, options: Withdrawable<WriteOptions>) {
    requireInside("write", offsetBytes, data.length, this);
    const start = this.config.offsetBytes + offsetBytes;
    const io = { operation: "write", sessionNumber, startBytes: offsetBytes, lengthBytes: data.length } as const;
    await this.#io({ ...io, isPastCaches: options.isPastCaches }, options.signal, async (handle) => {
      if (options.isPastCaches) return writeDurably(handle, start, data, () => this.file.sync(handle));
      const written = this.#lostWrites.noteWrite(sessionNumber);
      await writeBytes(handle, start, data).finally(written);
      if (options.fua) await this.#sync(sessionNumber, handle);
    });
  }

  /** Clears bytes, at most MAX_CLEAR_BYTES. `signal` withdraws an operation that was not submitted yet. */
  async clear(sessionNumber: number, { startBytes, sizeBytes }: ClearChunk, options: Withdrawable<ClearOptions>) {
    requireInside("clear", startBytes, sizeBytes, this);
    const start = this.config.offsetBytes + startBytes;
    const io = { operation: "clear", sessionNumber, startBytes, lengthBytes: sizeBytes } as const;
    await this.#io(io, options.signal, async (handle) => {
      const cleared = this.#lostWrites.noteWrite(sessionNumber);
      await clearBytes(handle, start, sizeBytes, options.kind).finally(cleared);
      if (options.fua) await this.#sync(sessionNumber, handle);
    });
  }

  /** Resolves once all acknowledged writes are on the device. `offsetBytes` is a byte of the session's run. */
  async flush(sessionNumber: number, offsetBytes: number): Promise<void> {
    const io = { operation: "flush", sessionNumber, startBytes: offsetBytes, lengthBytes: 0 } as const;
    await this.#io(io, undefined, (handle) => this.#sync(sessionNumber, handle));
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
    return this.#lostWrites.sync(sessionNumber, () => (handle.syncs ?? this.file).sync(handle));
  }

  async #io(io: Io, signal: AbortSignal | undefined, submit: Submit) {
    const { operation, sessionNumber } = io;
    const release = await this.#slots.acquire();
    try {
      if (signal?.aborted) throw signal.reason;
      const admitted = this.#admit(io);
      const handle = io.isPastCaches ? admitted.handle : await this.legs.handleFor(sessionNumber, admitted);
      // Again, right before the system call.
      const { run } = this.#admit(io);
      const ended = this.#begin(sessionNumber, run, operation);
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
        if (io.startBytes < LABEL_BYTES && sessionNumber !== BELOW_SESSIONS) this.labelOperations++;
        ended();
      }
    } finally {
      release();
    }
  }

  /** Counts an operation as begun; returns the function to call when it has ended. */
  #begin(sessionNumber: number, run: Run, operation: DeviceOperation): () => void {
    const ended = this.io.begin(sessionNumber, run);
    this.file.noteInFlight(1);
    return () => {
      this.sums.count(operation, ended());
      this.file.noteInFlight(-1);
      if (!this.holds) this.file.reconcile();
      this.#options.changes.touch();
    };
  }

  #admit(access: Access): { readonly handle: OpenHandle; readonly run: Run } {
    const run = requireAccess(this, this.#options.ledger.memory, access);
    const { handle } = this.file;
    if (handle === undefined) throw notAttached(this.id);
    return { handle, run };
  }
}

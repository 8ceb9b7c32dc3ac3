import {
  type DeviceId,
  DeviceIoError,
  type FileMarks,
  messageOf,
  OutdatedError,
  UnavailableError,
} from "@diskmesh/domain";
import { type Changes, type Clock, Slots } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import { isCurrentSession, superseded } from "../model/sessions.js";
import type { DeviceFailure, DeviceFile, FileUser } from "./device-file.js";
import { type DeviceConfig, growthOf, requireInside, sizeIn, whyUnfit } from "./device-place.js";
import { type DeviceProblem, type HangLimits, hangOf, isHardwareError } from "./device-problem.js";
import { DriverWords } from "./driver-words.js";
import type { HardwareErrors } from "./hardware-errors.js";
import type { ByteRange } from "./held-bytes.js";
import { InFlight, NO_SESSION, type Waiting } from "./in-flight.js";
import { LostWrites } from "./lost-writes.js";
import type { FileFacts, OpenHandle } from "./open-file.js";

/**
 * One device: whether it is held, its sessions, and all I/O on it. Every byte that is read or written passes `#io`, which
 * checks the device and the session at the moment the operating system is asked.
 */
export class Device implements FileUser {
  readonly config: DeviceConfig;
  readonly file: DeviceFile;
  readonly driverWords = new DriverWords();
  readonly #ledger: Ledger;
  readonly #hardwareErrors: HardwareErrors;
  readonly #changes: Changes<void>;
  readonly #slots: Slots;
  readonly #clock: Clock;
  readonly #hangs: HangLimits;
  readonly #inFlight: InFlight;
  readonly #lostWrites = new LostWrites();
  #probesInFlight = 0;
  #probeProblem: DeviceProblem | undefined;
  #wanted = false;
  #failure: DeviceFailure | undefined;
  #ioError: string | undefined;
  #sizeBytes: number;
  #grantedSession = 0;
  #stream: AbortController | undefined;

  constructor(
    config: DeviceConfig,
    file: DeviceFile,
    options: {
      ledger: Ledger;
      hardwareErrors: HardwareErrors;
      changes: Changes<void>;
      maxInFlightIo: number;
      clock: Clock;
      hangs: HangLimits;
    },
  ) {
    this.config = config;
    this.file = file;
    this.#ledger = options.ledger;
    this.#hardwareErrors = options.hardwareErrors;
    this.#changes = options.changes;
    this.#slots = new Slots(options.maxInFlightIo);
    this.#clock = options.clock;
    this.#hangs = options.hangs;
    this.#inFlight = new InFlight(options.clock);
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

  /** Whether the device was ordered attached, or never ordered detached. */
  get wanted(): boolean {
    return this.#wanted;
  }

  get attached(): boolean {
    return this.holds && this.file.phase === "open";
  }

  /** Nothing is open for this device and no open is under way for it, so a detach of it is done. */
  get released(): boolean {
    return !this.#wanted && this.inFlight === 0 && (this.file.phase === "closed" || this.file.isHeld);
  }

  get failure(): DeviceFailure | undefined {
    return this.#failure;
  }

  /** What is wrong with the device; undefined when nothing is known to be. */
  get problem(): DeviceProblem | undefined {
    const untold = this.#ledger.memory.devices.get(this.id)?.hardwareError;
    return untold === undefined ? this.problemNow : { level: "ERROR", message: untold };
  }

  /** The same without what its hardware failed with before: the registry is told of that by itself, and when it was. */
  get problemNow(): DeviceProblem | undefined {
    const error = this.#failure?.message ?? this.#ioError ?? (this.#wanted ? this.changed : undefined);
    if (error !== undefined) return { level: "ERROR", message: error };
    const hang = this.#hang;
    if (hang?.level === "ERROR") return hang;
    const growth = this.#wanted ? growthOf(this.config, this.#sizeBytes, this.file.seen) : undefined;
    return this.#probeProblem ?? hang ?? growth ?? this.driverWords.problem;
  }

  get #hang(): DeviceProblem | undefined {
    const what = this.#inFlight.count > 0 ? "I/O on" : `the ${this.file.phase} of`;
    return hangOf(`${what} device ${this.id}`, this.waiting.forMs, this.#hangs);
  }

  /** What a close waits for, or an open. */
  get waiting(): Waiting {
    const nowMs = this.#clock.monotonicMs();
    const sinceMs = Math.min(this.#inFlight.oldestSinceMs ?? nowMs, this.file.busySinceMs ?? nowMs);
    return { forMs: nowMs - sinceMs, inFlightOperations: this.inFlight };
  }

  /** What a higher session waits for. */
  waitingBelow(sessionNumber: number): Waiting {
    return this.#inFlight.waitingBelow(sessionNumber);
  }

  /** Why the path does not name what is held; a file that grew, or shrank beside the device, is still the device's. */
  get changed(): string | undefined {
    const { changed, seen, isOnlyResized } = this.file;
    // Asked with every I/O, and nearly always nothing has changed.
    if (changed === undefined) return undefined;
    const hasAllBytes = isOnlyResized && seen && sizeIn(seen.sizeBytes, this.config) >= this.#sizeBytes;
    return hasAllBytes ? undefined : changed;
  }

  /** Whether the path names something else than what is held, or the file has lost bytes of the device: I/O stops. */
  get replaced(): boolean {
    return this.changed !== undefined && this.file.replaced;
  }

  /** Why no session may be granted; undefined when the bytes are the device's. */
  get whyChanged(): string | undefined {
    if (this.#failure?.outcome === "device_changed") return this.#failure.message;
    return this.replaced ? this.changed : undefined;
  }

  get healthMessage(): string | undefined {
    return this.problem?.message;
  }

  /** What is to be told of the file that the path names now, which may be another than the one that is held. */
  get reported(): FileMarks & { readonly sizeBytes: number; readonly fileIdentity: string } {
    const { seen } = this.file;
    const sizeBytes = (seen && sizeIn(seen.sizeBytes, this.config)) || this.#sizeBytes;
    return { sizeBytes, serialNumber: seen?.serialNumber ?? "", fileIdentity: seen?.identity ?? "" };
  }

  get inFlight(): number {
    return this.#inFlight.count;
  }

  /** Whether it holds the file follows from these two. */
  #want(wanted: boolean, failure: DeviceFailure | undefined): void {
    this.#wanted = wanted;
    this.#failure = failure;
    this.file.noteHolds(this);
  }

  /** Starts to hold the device, or tries again after a failure. */
  attach(): void {
    // What was wrong stays said until the file is found to be in order.
    this.#ioError = this.#failure?.message ?? this.#ioError;
    this.#want(true, undefined);
    this.file.reconcile();
  }

  /** Tries again what failed for a reason that may have gone. */
  retry(): void {
    if (this.#wanted && this.#failure?.outcome === "io_error") this.attach();
  }

  get range(): ByteRange {
    const { offsetBytes: startBytes } = this.config;
    return { startBytes, endBytes: startBytes + this.#sizeBytes };
  }

  /** Refuses new I/O at once and lets go of the file when what is in flight has ended. */
  detach(): void {
    this.#want(false, undefined);
    if (this.#probesInFlight === 0) this.#probeProblem = undefined;
    this.file.reconcile();
  }

  /** Gives the device up for this attempt. */
  fail(failure: DeviceFailure): void {
    this.#want(this.#wanted, failure);
    this.#changes.touch();
  }

  /** Notes what a look at a file that is not open found. */
  noteUnusable(message: string): void {
    this.#ioError = message;
  }

  /**
   * Holds the device against its file: a file that is too short, or not the one that the registry recorded, makes it
   * fail. After a power cut another drive may be where the device was, and a session goes on from before.
   */
  verify(facts: FileFacts): void {
    const recorded = this.#ledger.memory.devices.get(this.id)?.identity;
    const unfit = whyUnfit(facts, this.config, recorded);
    if (unfit !== undefined) {
      this.#want(this.#wanted, unfit);
      return;
    }
    if (!this.#wanted) this.#failure = undefined;
    // The bytes that the file has grown by are nobody's before the registry takes it in.
    this.#sizeBytes = recorded?.sizeBytes || sizeIn(facts.sizeBytes, this.config);
    this.#ioError = undefined;
  }

  /** Reads one block at about that part of the device, from 0 to 1. Resolves when the operating system has answered. */
  async probe(part: number): Promise<void> {
    const { handle } = this.file;
    if (handle === undefined || !this.holds) return;
    const { blockSizeBytes, offsetBytes } = this.config;
    const block = Math.floor(part * Math.floor(this.#sizeBytes / blockSizeBytes));
    const ended = this.#begin(NO_SESSION);
    this.#probesInFlight += 1;
    try {
      const buffer = Buffer.allocUnsafe(blockSizeBytes);
      const { bytesRead } = await handle.read(buffer, 0, blockSizeBytes, offsetBytes + block * blockSizeBytes);
      if (bytesRead === 0) throw this.#endsAt(offsetBytes + block * blockSizeBytes);
      this.#probeProblem = undefined;
      this.#ioError = undefined;
    } catch (error) {
      const message = `reading block ${block} of device ${this.id} failed: ${messageOf(error)}`;
      if (isHardwareError(error)) this.#hardwareErrors.note(this.id, message);
      else this.#probeProblem = { level: "ERROR", message };
    } finally {
      this.#probesInFlight -= 1;
      ended();
    }
  }

  /** Notes that a probe takes longer than it may. The text stays the same while it does: each new one is told. */
  noteSlowProbe(level: DeviceProblem["level"], limitMs: number): void {
    this.#probeProblem = { level, message: `a read of device ${this.id} has not returned within ${limitMs} ms` };
  }

  /** Whether all I/O submitted under lower sessions has ended. */
  isQuietBelow(sessionNumber: number): boolean {
    return this.#inFlight.isQuietBelow(sessionNumber);
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
    requireInside("read", offsetBytes, lengthBytes, this);
    const data = Buffer.allocUnsafe(lengthBytes);
    const start = this.config.offsetBytes + offsetBytes;
    await this.#io(sessionNumber, undefined, async (handle) => {
      for (let done = 0; done < lengthBytes; ) {
        const { bytesRead } = await handle.read(data, done, lengthBytes - done, start + done);
        if (bytesRead === 0) throw this.#endsAt(start + done);
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
    requireInside("write", offsetBytes, data.length, this);
    const start = this.config.offsetBytes + offsetBytes;
    await this.#io(sessionNumber, options.signal, async (handle) => {
      this.#lostWrites.noteWrite(sessionNumber);
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

  /** The file has shrunk. A look stops all I/O: a write would make it grow again, with zeros in between. */
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

  async #io(
    sessionNumber: number,
    signal: AbortSignal | undefined,
    submit: (handle: OpenHandle) => Promise<void>,
  ): Promise<void> {
    const release = await this.#slots.acquire();
    try {
      if (signal?.aborted) throw signal.reason;
      const handle = this.#admit(sessionNumber);
      const ended = this.#begin(sessionNumber);
      try {
        await submit(handle);
        this.#ioError = undefined;
      } catch (error) {
        const message = `I/O on device ${this.id} failed: ${messageOf(error)}`;
        if (isHardwareError(error)) this.#hardwareErrors.note(this.id, message);
        else this.#ioError = message;
        throw new DeviceIoError(message, { about: { device_id: this.id }, cause: error });
      } finally {
        ended();
      }
    } finally {
      release();
    }
  }

  /** Returns what to call when the operating system has answered. */
  #begin(sessionNumber: number): () => void {
    const ended = this.#inFlight.begin(sessionNumber);
    this.file.noteInFlight(1);
    return () => {
      ended();
      this.file.noteInFlight(-1);
      if (!this.holds) this.file.reconcile();
      this.#changes.touch();
    };
  }

  #admit(sessionNumber: number): OpenHandle {
    const about = { device_id: this.id };
    const current = this.#ledger.memory.devices.get(this.id)?.session;
    if (current === undefined || current.number < sessionNumber)
      throw new UnavailableError(`session ${sessionNumber} of device ${this.id} was not opened here`, { about });
    if (!isCurrentSession(this.#ledger.memory, this.id, sessionNumber))
      throw new OutdatedError(superseded(this.id, sessionNumber, current), { about });
    const handle = this.file.handle;
    const why = this.whyChanged;
    if (why !== undefined) throw new UnavailableError(`device ${this.id} has changed: ${why}`, { about });
    if (handle === undefined || !this.holds) throw new UnavailableError(`device ${this.id} is not attached`, { about });
    if (this.#grantedSession !== sessionNumber)
      throw new UnavailableError(`session ${sessionNumber} of device ${this.id} is not granted yet`, { about });
    return handle;
  }
}

import { type DeviceId, type Logger, messageOf, OutdatedError, UnavailableError } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import { Pace } from "../base/pace.js";
import type { ClearOptions } from "../files/file-bytes.js";
import type { Place } from "../model/exports.js";
import {
  alikeBytes,
  ask,
  type CopyName,
  isAlive,
  isHolding,
  MIRROR_BEGUN,
  type MirrorAnswer,
  type MirrorRequest,
  type MirrorState,
  newRequest,
  nextStep,
  noteAnswer,
  noteCopied,
  noteDecided,
  noteEnding,
  noteFailure,
  noteOverdue,
  noteSent,
  noteSettled,
} from "../model/mirror.js";
import type { DiskPart } from "../parts/disk-part.js";
import { CopyError, type CopyLimits, copyBytes, on } from "./copy-bytes.js";
import { RangeLocks } from "./range-locks.js";

/** Maximum wait in ms for both copies at the end of an export, for which an order waits. */
const SEAL_FLUSH_MS = 1_000;

export interface MirrorLimits {
  readonly copy: CopyLimits;
  /** Time in ms after which a target without an answer has failed, so that it holds up the disk no longer. */
  readonly targetTimeoutMs: number;
  /** Time in ms after which a request fails that waits for the decision which copy counts. */
  readonly heldTimeoutMs: number;
}

/** Runs of a mirror. */
export interface Mirrored {
  readonly source: Place;
  readonly target: Place;
}

/** How far a mirror is. */
export interface MirrorStatus {
  readonly answer: MirrorAnswer;
  readonly copiedBytes: number;
}

interface MirrorOptions {
  readonly source: DiskPart;
  readonly target: DiskPart;
  readonly sizeBytes: number;
  /** Bytes that are alike at the beginning. */
  readonly startBytes: number;
  /** 0 for no limit. */
  readonly bytesPerSecond: number;
  readonly about: { readonly diskId: string; readonly deviceId: DeviceId; readonly targetId: DeviceId };
  /** Resolves once all changes of the part's bytes have ended that have begun by now. */
  readonly quiet: () => Promise<unknown>;
  readonly limits: MirrorLimits;
  readonly clock: Pick<Clock, "monotonicMs" | "sleep" | "after">;
  readonly log: Logger;
}

/** Does a request on one copy. `isDurable`: a change must be on the device when it is done. */
type OnCopy<T> = (part: DiskPart, isDurable: boolean) => Promise<T>;

/**
 * A part while it moves: reads come from the source, writes go to both copies, and all other bytes are copied. The model
 * decides what is acknowledged.
 */
export class Mirror implements DiskPart {
  readonly #options: MirrorOptions;
  readonly #locks = new RangeLocks();
  readonly #pace: Pace;
  readonly #ending = new AbortController();
  /** Wakes the requests that wait. */
  readonly #waiting = new Set<() => void>();
  #state: MirrorState = MIRROR_BEGUN;
  /** All bytes below are copied. */
  #copiedBytes: number;
  /** First bytes of the changes that are not done on both copies, each with a sign of its own. */
  readonly #changing = new Map<symbol, number>();
  #isSealed = false;

  constructor(options: MirrorOptions) {
    this.#options = options;
    this.#copiedBytes = options.startBytes;
    this.#pace = new Pace(options.clock, options.bytesPerSecond);
    options.log.info(options.about, "mirror begun");
    void this.#copy();
  }

  setRate(bytesPerSecond: number): void {
    this.#pace.set(bytesPerSecond);
  }

  /** Returns how far the mirror is. The answer that both copies are equal binds. */
  ask(): MirrorStatus {
    const { state, answer } = ask(this.#state);
    this.#set(state);
    return { answer, copiedBytes: this.#copiedBytes };
  }

  /** Ends the mirror with the copy that counts, and returns it. Requests without an answer go on there. */
  decide(counts: CopyName): DiskPart {
    const { source, target, about, log } = this.#options;
    this.#set(noteDecided(this.#state, counts));
    const [counting, other] = counts === "source" ? [source, target] : [target, source];
    other.close();
    log.info({ ...about, counts }, "mirror ended");
    return counting;
  }

  /**
   * Ends the changes of the part. Returns how many bytes from its start both copies have alike, durably: those below each
   * change that is not done on both.
   */
  async seal(): Promise<number> {
    const { source, sizeBytes, clock } = this.#options;
    const target = this.#timedTarget();
    this.#isSealed = true;
    this.#ending.abort(new Error("the export ends"));
    const sealed = { sizeBytes, belowBytes: this.#copiedBytes, changing: [...this.#changing.values()] };
    const isDurable = await new Promise<boolean>((resolve) => {
      const cancel = clock.after(SEAL_FLUSH_MS, () => resolve(false));
      const flushed = Promise.all([source.flush(), target.flush()]);
      void flushed.then(
        () => resolve(true),
        () => resolve(false),
      );
      void flushed.finally(cancel).catch(() => undefined);
    });
    return isDurable ? alikeBytes(this.#state, sealed) : 0;
  }

  /** Fails the requests that wait, because the export ends. */
  release(): void {
    this.#set(noteEnding(this.#state));
  }

  close(): void {
    this.release();
    this.#options.source.close();
    this.#options.target.close();
  }

  async read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    return this.#answered("read", (part) => part.read(offsetBytes, lengthBytes));
  }

  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    return this.#locked(offsetBytes, data.length, (part, isDurable) => part.write(offsetBytes, data, fua && isDurable));
  }

  clear(offsetBytes: number, lengthBytes: number, { kind, fua }: ClearOptions): Promise<void> {
    // The copies must be alike, and a discarded range may keep its bytes on one of them.
    const sameKind = kind === "discard" ? "zero" : kind;
    return this.#locked(offsetBytes, lengthBytes, (part, isDurable) =>
      part.clear(offsetBytes, lengthBytes, { kind: sameKind, fua: fua && isDurable }),
    );
  }

  flush(): Promise<void> {
    return this.#answered("flush", (part) => part.flush());
  }

  /** Changes bytes once all earlier changes of the range have ended, because both copies must have them in one order. */
  async #locked(startBytes: number, sizeBytes: number, change: OnCopy<void>): Promise<void> {
    if (this.#isSealed) throw new UnavailableError(`disk ${this.#options.about.diskId}: its export has ended`);
    const sign = Symbol();
    this.#changing.set(sign, startBytes);
    const release = await this.#locks.take(startBytes, sizeBytes);
    try {
      await this.#answered("write", change);
      this.#changing.delete(sign);
    } finally {
      release();
    }
  }

  async #answered<T>(kind: MirrorRequest["kind"], onCopy: OnCopy<T>): Promise<T> {
    let request = newRequest(kind);
    let wake = (): void => {};
    const came = new Map<CopyName, { readonly value: T } | { readonly error: unknown }>();
    const send = (to: CopyName): void => {
      const note = (result: { readonly value: T } | { readonly error: unknown }): void => {
        came.set(to, result);
        const noted = noteAnswer(this.#state, request, to, answerOf(result));
        request = noted.request;
        this.#set(noted.state);
        wake();
      };
      request = noteSent(this.#state, request, to);
      void this.#onCopy(to, onCopy).then(
        (value) => note({ value }),
        (error: unknown) => note({ error }),
      );
    };
    const { clock, limits } = this.#options;
    let cancel: (() => void) | undefined;
    const overdue = (): void => {
      request = noteOverdue(request);
      wake();
    };
    try {
      for (;;) {
        const step = nextStep(this.#state, request);
        if (step.does === "send") for (const to of step.to) send(to);
        else if (step.does === "wait") {
          if (isHolding(this.#state)) cancel ??= clock.after(limits.heldTimeoutMs, overdue);
          await new Promise<void>((resolve) => {
            wake = resolve;
            this.#waiting.add(resolve);
          }).finally(() => this.#waiting.delete(wake));
        } else return this.#result(step.by === undefined ? undefined : came.get(step.by));
      }
    } finally {
      cancel?.();
    }
  }

  #result<T>(came: { readonly value: T } | { readonly error: unknown } | undefined): T {
    if (came !== undefined && "value" in came) return came.value;
    if (came !== undefined) throw came.error;
    const { about, limits } = this.#options;
    const why = isHolding(this.#state)
      ? `no registry has said for ${limits.heldTimeoutMs} ms which of its devices ${about.deviceId} and ${about.targetId} counts: ${this.#state.failure?.message}`
      : "its export has ended";
    throw new UnavailableError(`disk ${about.diskId}: ${why}`);
  }

  #onCopy<T>(name: CopyName, onCopy: OnCopy<T>): Promise<T> {
    if (name === "source") return onCopy(this.#options.source, true);
    // Bytes that are written during the copy are flushed with it.
    return this.#timed(onCopy(this.#options.target, this.#state.phase !== "copying"));
  }

  /** Gives the target up when an answer takes too long. */
  async #timed<T>(answer: Promise<T>): Promise<T> {
    const { clock, limits } = this.#options;
    const { targetTimeoutMs } = limits;
    const cancel = clock.after(targetTimeoutMs, () => this.#fail("target", `no answer within ${targetTimeoutMs} ms`));
    try {
      return await answer;
    } finally {
      cancel();
    }
  }

  async #copy(): Promise<void> {
    const { source, sizeBytes, startBytes, limits, quiet } = this.#options;
    const target = this.#timedTarget();
    try {
      // Writes that have begun before the mirror are on the source alone.
      await quiet();
      await copyBytes({
        source,
        target,
        sizeBytes,
        startBytes,
        limits: limits.copy,
        pace: this.#pace,
        signal: this.#ending.signal,
        lock: (startBytes, length) => this.#locks.take(startBytes, length),
        onCopied: (copiedBytes) => {
          this.#copiedBytes = copiedBytes;
        },
      });
      this.#set(noteCopied(this.#state));
      await quiet();
      await on("target", target.flush());
      this.#set(noteSettled(this.#state));
    } catch (error) {
      if (error instanceof CopyError) this.#fail(error.at, messageOf(error));
    }
  }

  #timedTarget(): Pick<DiskPart, "write" | "clear" | "flush"> {
    const { target } = this.#options;
    return {
      write: (offsetBytes, data, fua) => this.#timed(target.write(offsetBytes, data, fua)),
      clear: (offsetBytes, lengthBytes, options) => this.#timed(target.clear(offsetBytes, lengthBytes, options)),
      flush: () => this.#timed(target.flush()),
    };
  }

  #fail(at: CopyName, message: string): void {
    this.#set(noteFailure(this.#state, at, message));
  }

  #set(state: MirrorState): void {
    if (state === this.#state) return;
    const { about, log } = this.#options;
    if (state.failure !== this.#state.failure) log.warn({ ...about, ...state.failure }, "mirror failed");
    else if (state.phase !== this.#state.phase) log.info({ ...about, phase: state.phase }, "mirror advanced");
    this.#state = state;
    if (!isAlive(state)) {
      this.#ending.abort(new Error("the mirror has ended"));
      // One copy alone is acknowledged from now on, and a hanging write of the other one must not keep others waiting.
      this.#locks.open();
    }
    for (const wake of this.#waiting) wake();
  }
}

function answerOf(came: { readonly value: unknown } | { readonly error: unknown }) {
  if (!("error" in came)) return { is: "done" as const, message: "" };
  const is = came.error instanceof OutdatedError ? ("refused" as const) : ("failed" as const);
  return { is, message: messageOf(came.error) };
}

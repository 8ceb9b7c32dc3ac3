import { setTimeout as sleep } from "node:timers/promises";
import { type DeviceId, type DiskId, type Logger, messageOf } from "@diskmesh/domain";
import { KernelRequests } from "../kernel/device-io.js";
import type { DeviceMapper } from "../kernel/device-mapper.js";
import type { MirrorStatus } from "../mirror/mirror.js";
import { linearTable, type PartRole, type Segment } from "../model/mapped-devices.js";
import {
  ask,
  type CopyName,
  isAlive,
  isHolding,
  MIRROR_BEGUN,
  type MirrorState,
  noteCopied,
  noteDecided,
  noteFailure,
  noteSettled,
} from "../model/mirror.js";
import {
  type CopiesStatus,
  copiedBytesOf,
  copiesStatusOf,
  isWhole,
  type MoveStage,
  type MovingBytes,
  NOTHING_COPIED,
  nextStage,
  stageAt,
  tableAt,
} from "../model/moving-bytes.js";

/** Interval in ms of the looks at both copies: a copy that fails holds writes until the next one. */
const POLL_MS = 200;
/** Maximum wait in ms for both copies at the end of an export, for which an order waits. */
const SEAL_FLUSH_MS = 1_000;
const UNEXPLAINED = "the kernel reports a failed request, but not on which copy";

export interface KernelMoveLimits {
  /** Bytes that the kernel copies before the table says that they are copied. A multiple of 4 KiB. */
  readonly windowBytes: number;
  /** Time in ms after which a copy without an answer has failed. */
  readonly targetTimeoutMs: number;
  /** Time in ms after which a request that no copy works on counts as held by the kernel. */
  readonly heldRequestMs: number;
}

interface KernelMoveOptions {
  readonly mapper: DeviceMapper;
  readonly role: PartRole;
  readonly bytes: MovingBytes;
  readonly about: { readonly diskId: DiskId; readonly deviceId: DeviceId; readonly targetId: DeviceId };
  /** Returns why the target has a later session; undefined while it has not. */
  readonly refusal: () => string | undefined;
  readonly limits: KernelMoveLimits;
  readonly log: Logger;
}

/**
 * The move of a part that the kernel carries: its device lies on both copies, and the kernel copies one window after another.
 * The table of the device is the record of how far it is, which outlives the agent.
 */
export class KernelMove {
  readonly #options: KernelMoveOptions;
  readonly #ending = new AbortController();
  readonly #requests = { part: new KernelRequests(), source: new KernelRequests(), target: new KernelRequests() };
  #state: MirrorState = MIRROR_BEGUN;
  #stage: MoveStage = NOTHING_COPIED;
  #copiedBytes = 0;
  #bytesPerSecond = 0;
  #windowSinceMs = 0;
  /** Events of the device since its last table; undefined before they were counted. */
  #events: number | undefined;
  #flushing: Promise<void> | undefined;
  #isFlushed = false;
  #running: Promise<void> | undefined;

  /** Number of the part's device. */
  number = "";

  constructor(options: KernelMoveOptions) {
    this.#options = options;
  }

  get role(): PartRole {
    return this.#options.role;
  }

  /** The part's device as a part of its disk. */
  get segment(): Segment {
    return { on: this.number, offsetBytes: 0, sizeBytes: this.#options.bytes.source.sizeBytes };
  }

  /** Reason why requests wait; undefined while none do. */
  get problem(): string | undefined {
    if (!isHolding(this.#state)) return undefined;
    const { about } = this.#options;
    return `its writes wait until the registry says which of its devices ${about.deviceId} and ${about.targetId} counts: ${this.#state.failure?.message}`;
  }

  /** Makes the part's device, on which no disk lies yet. Both copies have the first bytes alike. */
  async make(alikeBytes: number): Promise<void> {
    const { mapper, role, bytes } = this.#options;
    this.#stage = stageAt(bytes, alikeBytes);
    this.#copiedBytes = this.#stage.copiedBytes;
    this.number = await mapper.ensure({ role, table: tableAt(bytes, this.#stage) });
  }

  /**
   * Goes on with the device of a former life. That may have answered EQUAL once all bytes were on both copies, so that
   * neither counts alone then.
   */
  adopt(number: string, stage: MoveStage): void {
    this.number = number;
    this.#stage = stage;
    this.#copiedBytes = stage.copiedBytes;
    if (isWhole(this.#options.bytes, stage)) this.#state = { phase: "bound" };
  }

  /** Begins to copy, once the disk lies on the part's device. */
  start(): void {
    if (this.#running !== undefined) return;
    this.#options.log.info(this.#options.about, "mirror begun");
    this.#running = this.#run();
  }

  setRate(bytesPerSecond: number): void {
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** Notes that a copy has failed. */
  fail(at: CopyName, message: string): void {
    this.#set(noteFailure(this.#state, at, message));
  }

  /** Returns how far the move is. The answer that both copies are equal binds. */
  ask(): MirrorStatus {
    const { state, answer } = ask(this.#state);
    // A former life may have died before its flush.
    if (answer.is === "equal" && !this.#isFlushed) return { answer: { is: "copying" }, copiedBytes: this.#copiedBytes };
    this.#set(state);
    return { answer, copiedBytes: this.#copiedBytes };
  }

  /** Ends the move with the copy that counts. Requests that the kernel holds go on there. */
  async decide(counts: CopyName): Promise<void> {
    const { mapper, role, bytes, about, log } = this.#options;
    await this.leave();
    await mapper.ensure({ role, table: linearTable([bytes[counts]]) });
    if (counts === "target" && !this.#isFlushed) await mapper.flush(this.number);
    this.#set(noteDecided(this.#state, counts));
    log.info({ ...about, counts }, "mirror ended");
  }

  /** Ends a move on whose device no disk lies any more. Returns how many bytes both copies have alike, durably. */
  async seal(): Promise<number> {
    const { mapper, role } = this.#options;
    await this.leave();
    const isWell = async (): Promise<boolean> => {
      const { status, events } = await mapper.lookAtCopies(role);
      this.#events ??= events;
      return this.#failureOf(copiesStatusOf(status, this.#stage), events) === undefined;
    };
    if (!isAlive(this.#state) || !(await isWell())) return 0;
    const isFlushed = await Promise.race([
      mapper.flush(this.number).then((failure) => failure === undefined),
      sleep(SEAL_FLUSH_MS, false),
    ]);
    return isFlushed && (await isWell()) ? this.#stage.copiedBytes : 0;
  }

  /** Ends the agent's part. The kernel goes on, up to the end of the window. */
  async leave(): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#ending;
    const { about, log } = this.#options;
    this.#windowSinceMs = performance.now();
    while (!signal.aborted) {
      await this.#look().catch((error: unknown) => log.warn({ ...about, error: messageOf(error) }, "mirror not seen"));
      await sleep(POLL_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async #look(): Promise<void> {
    const { mapper, role, bytes, limits } = this.#options;
    if (isAlive(this.#state)) {
      const { status: output, events } = await mapper.lookAtCopies(role);
      const status = copiesStatusOf(output, this.#stage);
      this.#events ??= events;
      const failure = this.#failureOf(status, events);
      if (failure !== undefined) this.fail(failure.at, failure.message);
      else {
        this.#copiedBytes = copiedBytesOf(this.#stage, status);
        const windowMs = performance.now() - this.#windowSinceMs;
        const rules = { windowBytes: limits.windowBytes, bytesPerSecond: this.#bytesPerSecond, windowMs };
        const next = nextStage(bytes, this.#stage, status, rules);
        if (next !== this.#stage) await this.#advance(next, this.#endsOf(status));
        else if (isWhole(bytes, this.#stage)) {
          this.#set(noteCopied(this.#state));
          this.#flushing ??= this.#flush();
        }
      }
    }
    const { failure, phase } = this.#state;
    // A copy that does not count is dropped without asking.
    if (failure !== undefined && phase !== "bound" && this.#stage !== NOTHING_COPIED)
      await this.#advance(NOTHING_COPIED);
  }

  async #advance(stage: MoveStage, ends = 0): Promise<void> {
    const { mapper, role, bytes, about, log } = this.#options;
    await mapper.ensure({ role, table: tableAt(bytes, stage) });
    this.#stage = stage;
    this.#windowSinceMs = performance.now();
    this.#copiedBytes = stage.copiedBytes;
    log.debug({ ...about, ...stage }, "mirror at its next window");
    const { status, events } = await mapper.lookAtCopies(role);
    // A flush that failed right before the change was repeated by it, and may succeed on a drive that has lost writes.
    if (this.#isUnexplained(events, ends + this.#endsOf(copiesStatusOf(status, stage))))
      this.fail("target", UNEXPLAINED);
    this.#events = events;
  }

  /** Returns the number of ends of the window, 0 or 1. Each end is an event of the part's device. */
  #endsOf({ alike, regions }: Pick<CopiesStatus, "alike" | "regions">): number {
    return this.#stage.windowBytes > 0 && alike === regions ? 1 : 0;
  }

  /** Returns whether the part's device had an event beside the ends of windows. */
  #isUnexplained(events: number, ends: number): boolean {
    return events - (this.#events ?? events) > ends;
  }

  /** Returns which copy has failed. The kernel forgets a failed flush, and holds its request nevertheless. */
  #failureOf(
    status: ReturnType<typeof copiesStatusOf>,
    events: number,
  ): { readonly at: CopyName; readonly message: string } | undefined {
    const { refusal, limits, bytes } = this.#options;
    const { failed, why } = status;
    const refused = refusal();
    if (refused !== undefined) return { at: "target", message: refused };
    if (failed !== undefined) return { at: failed, message: why };
    if (this.#isUnexplained(events, this.#endsOf(status))) return { at: "target", message: UNEXPLAINED };
    const nowMs = performance.now();
    const inFlight = {
      part: this.#requests.part.look(this.number, nowMs),
      source: this.#requests.source.look(bytes.source.on, nowMs),
      target: this.#requests.target.look(bytes.target.on, nowMs),
    };
    const hasWaited = ({ oldestSinceMs = nowMs }: typeof inFlight.part, ms: number) => nowMs - oldestSinceMs >= ms;
    if (hasWaited(inFlight.target, limits.targetTimeoutMs))
      return { at: "target", message: `no answer within ${limits.targetTimeoutMs} ms` };
    const isIdleBelow = inFlight.source.count + inFlight.target.count === 0;
    if (isIdleBelow && hasWaited(inFlight.part, limits.heldRequestMs))
      return { at: "target", message: "the kernel holds a request, because a copy failed it" };
    return undefined;
  }

  /** Writes what both copies have to their drives. Is not waited for, because a copy that fails it holds it. */
  async #flush(): Promise<void> {
    const { mapper } = this.#options;
    try {
      const failure = await mapper.flush(this.number);
      if (failure !== undefined) return this.fail("source", failure);
      this.#isFlushed = true;
      this.#set(noteSettled(this.#state));
    } catch (error) {
      this.fail("target", messageOf(error));
    }
  }

  #set(state: MirrorState): void {
    if (state === this.#state) return;
    const { about, log } = this.#options;
    if (state.failure !== this.#state.failure) log.warn({ ...about, ...state.failure }, "mirror failed");
    else if (state.phase !== this.#state.phase) log.info({ ...about, phase: state.phase }, "mirror advanced");
    this.#state = state;
  }
}

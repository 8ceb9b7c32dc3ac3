import { type Logger, UnavailableError } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { CpiCall } from "../store/cpi-call.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { ANYTHING, isOfDispatcher, type NamedThings, recordsAtStart, thingsChanged, whyHeldUp } from "./cpi-call.js";
import type { Dispatcher } from "./dispatchers.js";

export interface CallRecordsOptions {
  readonly tablet: DirectorTablet;
  /** The addresses of the configured dispatchers. */
  readonly addresses: readonly string[];
  readonly endTimeoutMs: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The part of a call that is known before it is made. */
export interface CallToMake extends Pick<CpiCall, "callId" | "taskId" | "requestId" | "method" | "cpi"> {
  readonly request: NamedThings;
}

/** More calls come and go meanwhile, whose commits take this along. */
const FORGET_AFTER_MS = 100;

/**
 * Which calls that change something may be running, at which dispatcher. Each is recorded before it is made, until it has
 * ended: by its answer, or by its dispatcher's word. While nobody can say, no other call about the same things is made
 * at any dispatcher, by this director or the next; all else goes on.
 *
 * A director that finds no records, though tasks were run, comes after a release that made none: any of its dispatchers may
 * run something, so that another is called only once it obeys, or is taken out of the config.
 *
 * Where there is one dispatcher, the next director makes no call before that has ended all of this one. So one record
 * stands for all calls, in case the next director has several, and those alone that nobody waits for get their own.
 */
export class CallRecords {
  readonly #options: CallRecordsOptions;
  readonly #isOnly: boolean;
  /** Calls that somebody here waits for. */
  readonly #awaited = new Map<string, CpiCall>();
  /** Calls that have ended and are recorded still: a commit for each alone would hold up that of its result. */
  readonly #ended = new Set<string>();
  #forgetting: NodeJS.Timeout | undefined;

  constructor(options: CallRecordsOptions) {
    this.#options = options;
    this.#isOnly = options.addresses.length === 1;
  }

  /**
   * Before the first call. Forgets calls at dispatchers that the config does not name: by taking one out an operator says
   * that nothing runs there.
   */
  async start(): Promise<void> {
    const { tablet, addresses, clock, log } = this.#options;
    const former = await tablet.read(({ cpiCalls, counters }) => ({
      recorded: [...cpiCalls.entries()],
      hadTasks: counters.get("task") !== undefined,
    }));
    const gone = former.recorded.filter((call) => isOfDispatcher(call) && !addresses.includes(call.dispatcher));
    const goneIds = gone.map(({ callId }) => callId);
    const now = recordsAtStart(former, addresses, tablet.generation, clock.nowMs());
    await tablet.transact((tx) => {
      deleteAll(tx, goneIds);
      for (const call of now) tx.cpiCalls.put(call);
    });
    for (const { dispatcher, method, taskId, things } of gone) {
      const what = { dispatcher, method, taskId, things };
      log.warn(what, "the dispatcher of a call is not configured any more: the call is taken to have ended");
    }
    for (const call of now) if (call.directorGeneration === tablet.generation) this.#awaited.set(call.callId, call);
    const unknown = now.filter((call) => this.isLeft(call));
    for (const { dispatcher } of unknown)
      log.warn({ dispatcher }, "an older director recorded no calls: others are used once this dispatcher obeys");
  }

  /**
   * Resolves when it is durable that the call is made now, with false for one that only looks: of that nothing is recorded.
   * Throws UnavailableError while another one holds it up.
   */
  async begin({ address }: Pick<Dispatcher, "address">, { request, ...call }: CallToMake): Promise<boolean> {
    const { tablet, clock } = this.#options;
    const things = thingsChanged(call.method, request);
    if (things === undefined) return false;
    const [directorGeneration, sinceMs] = [tablet.generation, clock.nowMs()];
    const made = { ...call, dispatcher: address, directorGeneration, things, sinceMs };
    this.#awaited.set(call.callId, made);
    const ended = [...this.#ended];
    try {
      await tablet.transact((tx) => {
        deleteAll(tx, ended);
        const inTheWay = [...things, ANYTHING]
          .flatMap((thing) => [...tx.cpiCalls.by("byThing", thing)])
          .find((other) => this.isLeft(other) && !this.#isOfFormer(other, address));
        if (inTheWay) throw new UnavailableError(whyHeldUp(inTheWay, clock.nowMs()));
        if (!this.#isOnly) tx.cpiCalls.put(made);
      });
    } catch (error) {
      this.#awaited.delete(call.callId);
      throw error;
    }
    for (const callId of ended) this.#ended.delete(callId);
    return true;
  }

  /** Calls that somebody here waits for, the oldest first. */
  get awaited(): readonly CpiCall[] {
    return [...this.#awaited.values()].filter(({ taskId }) => taskId !== 0);
  }

  /** Nobody waits for it, nor saw its end. */
  isLeft({ callId }: CpiCall): boolean {
    return !this.#awaited.has(callId) && !this.#ended.has(callId);
  }

  /** A dispatcher that obeys this director has ended all calls of former ones. */
  #isOfFormer({ dispatcher, directorGeneration }: CpiCall, address: string): boolean {
    return dispatcher === address && directorGeneration < this.#options.tablet.generation;
  }

  /** The call has ended. That becomes durable some time later; a director that dies before leaves it to the next to ask. */
  end(callId: string): void {
    if (!this.#awaited.delete(callId) || this.#isOnly) return;
    this.#ended.add(callId);
    this.#forgetting ??= setTimeout(() => void this.#forgetEnded(), FORGET_AFTER_MS);
  }

  /** Nobody waits any more for a call that may be running. */
  abandon(callId: string): void {
    const call = this.#awaited.get(callId);
    if (call === undefined) return;
    const give = this.#options.tablet.transact((tx) => {
      tx.cpiCalls.put(call);
      this.#awaited.delete(callId);
    });
    // When that fails this director is deposed.
    give.catch(() => {});
  }

  /** Ends what may still run at a dispatcher that obeys this director, and that nobody waits for. */
  async settle({ address, client }: Dispatcher): Promise<void> {
    const { tablet, endTimeoutMs } = this.#options;
    const isLeft = (call: CpiCall) => this.isLeft(call);
    const left = await tablet.read((tables) => [...tables.cpiCalls.by("byDispatcher", address)].filter(isLeft));
    const { id: directorId, generation: directorGeneration } = tablet;
    // Those of former directors have ended: it would not obey otherwise.
    const ended = left.filter((call) => call.directorGeneration < directorGeneration);
    await this.#forget(ended);
    for (const call of left.filter((one) => !ended.includes(one))) {
      const { requestId, callId } = call;
      await client.endCalls({ directorId, directorGeneration, requestId, callId }, { deadlineMs: endTimeoutMs });
      await this.#forget([call]);
    }
  }

  close(): void {
    clearTimeout(this.#forgetting);
  }

  async #forgetEnded(): Promise<void> {
    this.#forgetting = undefined;
    const ended = [...this.#ended];
    try {
      await this.#options.tablet.transact((tx) => deleteAll(tx, ended));
      for (const callId of ended) this.#ended.delete(callId);
    } catch {
      // This director is deposed: the next one asks what has ended.
    }
  }

  async #forget(calls: readonly CpiCall[]): Promise<void> {
    if (calls.length === 0) return;
    const callIds = calls.map(({ callId }) => callId);
    await this.#options.tablet.transact((tx) => deleteAll(tx, callIds));
  }
}

function deleteAll(tx: DirectorTransaction, callIds: readonly string[]): void {
  for (const callId of callIds) tx.cpiCalls.delete(callId);
}

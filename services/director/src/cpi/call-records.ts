import { type Logger, UnavailableError } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { CpiCall } from "../store/cpi-call.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { ANYTHING, callsOfOnly, type NamedThings, type RetriedCall, thingsChanged, whyHeldUp } from "./cpi-call.js";
import type { Dispatcher } from "./dispatchers.js";

export interface CallRecordsOptions {
  readonly tablet: DirectorTablet;
  /** Addresses of the configured dispatchers. */
  readonly addresses: readonly string[];
  readonly endTimeoutMs: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The part of a call that is known before the call starts. */
export interface CallToMake extends Pick<CpiCall, "callId" | "taskId" | "requestId" | "method" | "cpi"> {
  readonly request: NamedThings;
}

/** Delay before records of ended calls are deleted, so that the commits of later calls can include the deletes. */
const FORGET_AFTER_MS = 100;

/**
 * Records which changing calls may be running at which dispatcher. A record exists from before the call starts until
 * the call has ended: by its answer, or by the dispatcher's confirmation. While the end is unknown, this director and
 * the next make no other call about the same objects at any dispatcher. Calls about other objects continue.
 *
 * A single dispatcher ends all calls of the former director before the next director makes a call, so individual
 * records are needed only for abandoned calls. One record stands for all other calls, in case the next director has
 * several dispatchers.
 */
export class CallRecords {
  /** Calls between two attempts, in memory only. Their callers add and delete them. */
  readonly retried = new Set<RetriedCall>();
  readonly #options: CallRecordsOptions;
  readonly #isOnly: boolean;
  /** Calls whose caller in this process still waits. */
  readonly #awaited = new Map<string, CpiCall>();
  /**
   * Ended calls whose records still exist. Records are deleted in batches, because a separate commit for each delete
   * would delay the commit of the call's result.
   */
  readonly #ended = new Set<string>();
  #forgetting: NodeJS.Timeout | undefined;

  constructor(options: CallRecordsOptions) {
    this.#options = options;
    this.#isOnly = options.addresses.length === 1;
  }

  /**
   * Prepares the records; must run before the first call. Deletes records of dispatchers that the config no longer
   * names: removing a dispatcher asserts that nothing runs there.
   */
  async start(): Promise<void> {
    const { tablet, addresses, clock, log } = this.#options;
    const gone = await tablet.read(({ cpiCalls }) =>
      [...cpiCalls.entries()].filter(({ dispatcher }) => !addresses.includes(dispatcher)),
    );
    const goneIds = gone.map(({ callId }) => callId);
    const [only = ""] = addresses;
    const all = this.#isOnly ? callsOfOnly(only, tablet.generation, clock.nowMs()) : undefined;
    await tablet.transact((tx) => {
      deleteAll(tx, goneIds);
      if (all !== undefined) tx.cpiCalls.put(all);
    });
    for (const { dispatcher, method, taskId, things } of gone) {
      // 0.1.0 stored a record of no dispatcher.
      if (dispatcher === "") continue;
      const what = { dispatcher, method, taskId, things };
      log.warn(what, "CPI call assumed ended, dispatcher removed from config");
    }
    if (all !== undefined) this.#awaited.set(all.callId, all);
  }

  /**
   * Records the start of a call; resolves with true once the record is durable. Resolves with false for a read-only
   * call, which is not recorded. Throws UnavailableError while an abandoned call about the same objects may still run.
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

  /** Returns the calls whose caller in this process still waits, oldest first. */
  get awaited(): readonly CpiCall[] {
    return [...this.#awaited.values()].filter(({ taskId }) => taskId !== 0);
  }

  /** Returns true for a call whose end is unknown and whose caller no longer waits. */
  isLeft({ callId }: CpiCall): boolean {
    return !this.#awaited.has(callId) && !this.#ended.has(callId);
  }

  /**
   * Returns true for a call that a former director made at the dispatcher. The dispatcher ended such calls before it
   * accepted this director.
   */
  #isOfFormer({ dispatcher, directorGeneration }: CpiCall, address: string): boolean {
    return dispatcher === address && directorGeneration < this.#options.tablet.generation;
  }

  /**
   * Marks the call as ended. The record is deleted later; after a crash the next director asks the dispatcher about the
   * call.
   */
  end(callId: string): void {
    if (!this.#awaited.delete(callId) || this.#isOnly) return;
    this.#ended.add(callId);
    this.#forgetting ??= setTimeout(() => void this.#forgetEnded(), FORGET_AFTER_MS);
  }

  /** Keeps the record of a call that may still run and whose caller no longer waits. */
  abandon(callId: string): void {
    const call = this.#awaited.get(callId);
    if (call === undefined) return;
    const give = this.#options.tablet.transact((tx) => {
      tx.cpiCalls.put(call);
      this.#awaited.delete(callId);
    });
    // A failed transaction means that another director leads now.
    give.catch(() => {});
  }

  /** Ends the abandoned calls at a dispatcher that accepts only this director. */
  async settle({ address, client }: Dispatcher): Promise<void> {
    const { tablet, endTimeoutMs } = this.#options;
    const isLeft = (call: CpiCall) => this.isLeft(call);
    const left = await tablet.read((tables) => [...tables.cpiCalls.by("byDispatcher", address)].filter(isLeft));
    const { id: directorId, generation: directorGeneration } = tablet;
    // The dispatcher ended the calls of former directors before it accepted this director.
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
      // Another director leads now and asks the dispatchers about these calls.
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

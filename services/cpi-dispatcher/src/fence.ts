import { AbortedError, CancelledError, OutdatedError, ResourceExhaustedError } from "@diskmesh/domain";

/** A director, by the generation of its tablet that leads. */
export interface DirectorGeneration {
  readonly directorId: string;
  readonly generation: number;
}

/** Which call of a director it is. */
export interface CallName {
  readonly requestId: string;
  /** Empty for a call that nobody ends alone. */
  readonly callId: string;
}

interface FencedCall extends CallName {
  readonly generation: number;
  readonly controller: AbortController;
  readonly ended: Promise<void>;
}

interface Director {
  highestGeneration: number;
  readonly calls: Set<FencedCall>;
  /** Calls that were ended, perhaps before they came; the oldest first. */
  readonly endedCallIds: Set<string>;
}

const NAMELESS: CallName = { requestId: "", callId: "" };
/** A cancellation overtakes its call by seconds at most. */
const ENDED_CALLS_KEPT = 10_000;

/** Directors that are remembered, each with its generation and calls, until the dispatcher restarts. */
const MAX_DIRECTORS = 100;

/**
 * Lets only the newest generation of each director act. Kept in memory alone: a new director fences every dispatcher
 * before it acts, so one that has just started learns in time.
 */
export class Fence {
  readonly #directors = new Map<string, Director>();
  readonly #unfenced = new Set<FencedCall>();

  constructor(private readonly maxDirectors = MAX_DIRECTORS) {}

  /**
   * Refuses lower generations from now on, aborts their calls, and returns when these have ended. The signal ends the
   * wait alone: what was refused stays refused.
   */
  async raise(caller: DirectorGeneration, signal: AbortSignal): Promise<void> {
    const director = this.#raise(caller);
    await this.#lowerCallsEnded(director, caller.generation, signal);
  }

  /** Runs a call of a director, unless a newer generation of it is known; aborts it when one appears. */
  async run<Result>(
    caller: DirectorGeneration,
    signal: AbortSignal,
    work: (signal: AbortSignal) => Promise<Result>,
    name = NAMELESS,
  ): Promise<Result> {
    const director = this.#raise(caller);
    await this.#lowerCallsEnded(director, caller.generation, signal);
    this.#refuseOutdated(director, caller);
    if (director.endedCallIds.has(name.callId))
      throw new AbortedError(`call ${name.callId} was ended by its director before it came`);
    signal.throwIfAborted();
    return track(director.calls, { generation: caller.generation, ...name }, signal, work);
  }

  /** Runs a call of somebody who has no generation, since it changes nothing. */
  runUnfenced<Result>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    return track(this.#unfenced, { generation: 0, ...NAMELESS }, signal, work);
  }

  /**
   * Aborts a director's calls of that request id, or the one of them that is named, and returns how many these were when
   * they have ended. The one that is named is refused if it comes later.
   */
  async endCalls(caller: DirectorGeneration, { requestId, callId }: CallName, signal: AbortSignal): Promise<number> {
    const director = this.#raise(caller);
    if (callId !== "") rememberEnded(director.endedCallIds, callId);
    const isMeant = (call: FencedCall) => call.requestId === requestId && (callId === "" || call.callId === callId);
    const calls = [...director.calls].filter(isMeant);
    const reason = new CancelledError("its director ended it, and what it has done is not known");
    for (const { controller } of calls) controller.abort(reason);
    await unlessAborted(Promise.all(calls.map((call) => call.ended)), signal);
    return calls.length;
  }

  /** Aborts all calls and returns when they have ended. */
  async end(): Promise<void> {
    const calls = [this.#unfenced, ...[...this.#directors.values()].map((director) => director.calls)];
    const reason = new CancelledError("the dispatcher stops");
    await Promise.all(
      calls
        .flatMap((set) => [...set])
        .map(async (call) => {
          call.controller.abort(reason);
          await call.ended;
        }),
    );
  }

  #raise(caller: DirectorGeneration): Director {
    const director = this.#directorOf(caller.directorId);
    this.#refuseOutdated(director, caller);
    director.highestGeneration = caller.generation;
    for (const call of director.calls)
      if (call.generation < caller.generation)
        call.controller.abort(
          new CancelledError(`generation ${caller.generation} of director ${caller.directorId} has taken over`),
        );
    return director;
  }

  #directorOf(directorId: string): Director {
    const known = this.#directors.get(directorId);
    if (known) return known;
    if (this.#directors.size >= this.maxDirectors)
      throw new ResourceExhaustedError(
        `this dispatcher serves ${this.maxDirectors} directors already: restart it to have it forget those that are gone`,
      );
    const director: Director = { highestGeneration: 0, calls: new Set(), endedCallIds: new Set() };
    this.#directors.set(directorId, director);
    return director;
  }

  #refuseOutdated(director: Director, { directorId, generation }: DirectorGeneration): void {
    if (generation >= director.highestGeneration) return;
    throw new OutdatedError(
      `generation ${generation} of director ${directorId} is outdated: generation ${director.highestGeneration} leads`,
      { about: { director_id: directorId, leading_generation: String(director.highestGeneration) } },
    );
  }

  async #lowerCallsEnded(director: Director, generation: number, signal: AbortSignal): Promise<void> {
    const lower = [...director.calls].filter((call) => call.generation < generation);
    if (lower.length === 0) return;
    await unlessAborted(Promise.all(lower.map((call) => call.ended)), signal);
  }
}

function rememberEnded(endedCallIds: Set<string>, callId: string): void {
  endedCallIds.add(callId);
  for (const oldest of endedCallIds) {
    if (endedCallIds.size <= ENDED_CALLS_KEPT) return;
    endedCallIds.delete(oldest);
  }
}

async function track<Result>(
  calls: Set<FencedCall>,
  what: Pick<FencedCall, "generation" | keyof CallName>,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<Result>,
): Promise<Result> {
  const controller = new AbortController();
  const abort = () => controller.abort(signal.reason);
  signal.addEventListener("abort", abort);
  const working = work(controller.signal);
  const ended = working.then(
    () => {},
    () => {},
  );
  const call: FencedCall = { ...what, controller, ended };
  calls.add(call);
  try {
    return await working;
  } finally {
    calls.delete(call);
    signal.removeEventListener("abort", abort);
  }
}

function unlessAborted(promise: Promise<unknown>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort);
    promise.then(() => resolve()).finally(() => signal.removeEventListener("abort", abort));
  });
}

import { AbortedError, CancelledError, OutdatedError, ResourceExhaustedError } from "@diskmesh/domain";
import { unlessAborted } from "../executables/unless-aborted.js";

/** A director with the generation of its leading tablet. */
export interface DirectorGeneration {
  readonly directorId: string;
  readonly generation: number;
}

/** Identifies a call of a director. */
export interface CallName {
  readonly requestId: string;
  /** Empty for a call that cannot be ended individually. */
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
  /** Ids of calls that were ended, possibly before they arrived; oldest first. */
  readonly endedCallIds: Set<string>;
}

const NAMELESS: CallName = { requestId: "", callId: "" };
/**
 * Number of ended calls that are remembered for each director. Suffices, because a call arrives at most seconds after
 * its cancellation.
 */
const ENDED_CALLS_KEPT = 10_000;

/** Maximum directors remembered until the dispatcher restarts. */
const MAX_DIRECTORS = 100;

/**
 * Admits only calls of each director's newest generation. The state is in memory only. A new director fences every
 * dispatcher before it acts, so a restarted dispatcher learns the generation in time.
 */
export class Fence {
  readonly #directors = new Map<string, Director>();
  readonly #unfenced = new Set<FencedCall>();

  constructor(private readonly maxDirectors = MAX_DIRECTORS) {}

  /**
   * Refuses calls of lower generations from now on, aborts such calls, and resolves when they have ended. The signal
   * aborts only the wait; the refusal stays in force.
   */
  async raise(caller: DirectorGeneration, signal: AbortSignal): Promise<void> {
    const director = this.#raise(caller);
    await this.#lowerCallsEnded(director, caller.generation, signal);
  }

  /** Runs a director's call unless a newer generation is known. Aborts the call when a newer generation appears. */
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
      throw new AbortedError(`call ${name.callId} was ended by its director before it arrived`);
    signal.throwIfAborted();
    return track(director.calls, { generation: caller.generation, ...name }, signal, work);
  }

  /** Runs a read-only call of a caller without a generation. */
  runUnfenced<Result>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    return track(this.#unfenced, { generation: 0, ...NAMELESS }, signal, work);
  }

  /**
   * Aborts a director's calls with the request id, or only the call with the call id, and returns their number when
   * they have ended. A named call that arrives later is refused.
   */
  async endCalls(caller: DirectorGeneration, { requestId, callId }: CallName, signal: AbortSignal): Promise<number> {
    const director = this.#raise(caller);
    if (callId !== "") rememberEnded(director.endedCallIds, callId);
    const isMeant = (call: FencedCall) => call.requestId === requestId && (callId === "" || call.callId === callId);
    const calls = [...director.calls].filter(isMeant);
    const reason = new CancelledError("the director ended the call, and the outcome of the call is not known");
    for (const { controller } of calls) controller.abort(reason);
    await unlessAborted(Promise.all(calls.map((call) => call.ended)), signal);
    return calls.length;
  }

  /** Aborts all calls and resolves when they have ended. */
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
        `this dispatcher already serves ${this.maxDirectors} directors, the limit: restart the dispatcher, which then forgets former directors`,
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

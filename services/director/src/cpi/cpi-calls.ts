import type { CallContext, CpiServiceService } from "@diskmesh/api/cpi";
import { type BackoffLimits, backoffMs, DomainError } from "@diskmesh/domain";
import type { CallOptions, Client } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import { CpiCallError, passes } from "./cpi-error.js";

export type CpiClient = Client<typeof CpiServiceService>;
type CpiMethod = Exclude<keyof CpiClient, "close" | "fence" | "listCpis">;
type RequestOf<Method extends CpiMethod> = Omit<Parameters<CpiClient[Method]>[0], "context">;
type ResponseOf<Method extends CpiMethod> = Awaited<ReturnType<CpiClient[Method]>>;

export interface CpiCallsOptions {
  readonly client: CpiClient;
  readonly directorId: string;
  readonly directorGeneration: number;
  /** Throws while another director may lead. */
  readonly checkMayAct: () => void;
  readonly callTimeoutMs: number;
  readonly retryMs: number;
  readonly clock: Clock;
  readonly random: () => number;
}

/** What a call obeys. */
export interface CallerSignals {
  /** The process ends: the next director fences this one and starts over. */
  readonly stopping: AbortSignal;
  /** The task shall stop. A call under way is not cut off, since what it did would not be known; it is not repeated. */
  readonly stopped: AbortSignal;
  readonly requestId: string;
}

const BACKOFF: BackoffLimits = { minDelayMs: 100, maxDelayMs: 5_000 };

/** Calls of CPI methods on behalf of tasks: with the director's generation, a time limit, and repeated while that helps. */
export class CpiCalls {
  readonly #options: CpiCallsOptions;

  constructor(options: CpiCallsOptions) {
    this.#options = options;
  }

  /** Calls a method of the CPI of that name until it succeeds or fails for good; then throws CpiCallError. */
  async call<Method extends CpiMethod>(
    method: Method,
    cpi: string,
    request: RequestOf<Method>,
    signals: CallerSignals,
  ): Promise<ResponseOf<Method>> {
    const { client, clock, retryMs, callTimeoutMs, random, checkMayAct } = this.#options;
    const start = client[method] as (request: unknown, options: CallOptions) => Promise<ResponseOf<Method>>;
    const full = { ...request, context: this.#contextOf(cpi, signals.requestId) };
    const startedAtMs = clock.monotonicMs();
    let someUnknown = false;
    for (let attempts = 0; ; attempts++) {
      try {
        checkMayAct();
        return await start(full, { signal: signals.stopping, deadlineMs: callTimeoutMs, requestId: signals.requestId });
      } catch (error) {
        someUnknown ||= !(error instanceof DomainError) || error.outcome === "unknown";
        const delayMs = Math.max(backoffMs(attempts, BACKOFF, random()), retryAfterMs(error));
        const late = clock.monotonicMs() + delayMs - startedAtMs > retryMs;
        if (!passes(error) || late || signals.stopped.aborted) throw new CpiCallError(method, error, { someUnknown });
        await clock.sleep(delayMs, signals.stopped).catch(() => {});
        if (signals.stopped.aborted) throw new CpiCallError(method, error, { someUnknown });
      }
    }
  }

  #contextOf(cpi: string, requestId: string): CallContext {
    const { directorId, directorGeneration } = this.#options;
    return { cpi, directorId, directorGeneration, requestId, stemcellApiVersion: 0 };
  }
}

function retryAfterMs(error: unknown): number {
  return error instanceof DomainError ? (error.retryAfterMs ?? 0) : 0;
}

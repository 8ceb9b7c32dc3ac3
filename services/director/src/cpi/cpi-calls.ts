import type { CallContext, CpiServiceService } from "@diskmesh/api/cpi";
import { type BackoffLimits, backoffMs, DomainError, messageOf } from "@diskmesh/domain";
import type { CallOptions, Client } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import { CpiCallError, isConfigUnknown, passes } from "./cpi-error.js";
import type { CpiLogs, LogSink } from "./cpi-logs.js";

export type CpiClient = Client<typeof CpiServiceService>;
type CpiMethod = Exclude<keyof CpiClient, "close" | "fence" | "listCpis" | "setCpiConfig" | "watchCpiLog">;
type RequestOf<Method extends CpiMethod> = Omit<Parameters<CpiClient[Method]>[0], "context">;
type ResponseOf<Method extends CpiMethod> = Awaited<ReturnType<CpiClient[Method]>>;

/** Which CPI a call is for. */
export interface CpiTarget {
  /** The one that is recorded with the thing the call is about; empty for the default one. */
  readonly cpi: string;
  /** For messages, and the choice of a CPI where none is recorded. */
  readonly az?: string;
  readonly azCpi?: string;
  /** Nothing is known of the id: whichever CPI has it is meant. */
  readonly unknownId?: boolean;
  /** Of the VM's stemcell; 0 when there is none. */
  readonly stemcellApiVersion?: number;
}

/** The cpi-config that calls rely on. */
export interface CpiConfigSource {
  /** Empty when there is no cpi-config. */
  version(): Promise<string>;
  /** Tells the dispatcher about it. */
  tell(signal: AbortSignal): Promise<void>;
}

export interface CpiCallsOptions {
  readonly client: CpiClient;
  readonly directorId: string;
  readonly directorGeneration: number;
  readonly cpiConfig: CpiConfigSource;
  readonly logs: CpiLogs;
  /** Throws while another director may lead. */
  readonly checkMayAct: () => void;
  readonly callTimeoutMs: number;
  readonly retryMs: number;
  readonly preferredApiVersion: number;
  readonly clock: Clock;
  readonly random: () => number;
}

/** What a call obeys. */
export interface CallerSignals extends LogSink {
  /** The process ends: the next director fences this one and starts over. */
  readonly stopping: AbortSignal;
  /** The task shall stop. A call under way is not cut off, since what it did would not be known; it is not repeated. */
  readonly stopped: AbortSignal;
  readonly requestId: string;
}

export interface RepeatOptions {
  /** Instead of the usual time for a call. */
  readonly timeoutMs?: number;
  /** False for calls that must not be made twice: they are given up when it is not known what came of one. */
  readonly repeatUnknown?: boolean;
}

const BACKOFF: BackoffLimits = { minDelayMs: 100, maxDelayMs: 5_000 };

/** Calls of CPI methods on behalf of tasks: with the director's generation, a time limit, and repeated while that helps. */
export class CpiCalls {
  readonly #options: CpiCallsOptions;

  constructor(options: CpiCallsOptions) {
    this.#options = options;
  }

  /** Calls a method of a CPI until it succeeds or fails for good; then throws CpiCallError. */
  async call<Method extends CpiMethod>(
    method: Method,
    target: CpiTarget,
    request: RequestOf<Method>,
    signals: CallerSignals,
    options: RepeatOptions = {},
  ): Promise<ResponseOf<Method>> {
    const { directorId, clock, logs } = this.#options;
    const logId = `${directorId}-${signals.requestId}`;
    const about = `${method} with ${target.cpi === "" ? "the default CPI" : `CPI ${target.cpi}`}`;
    const startedAtMs = clock.monotonicMs();
    const log = logs.listen(logId, signals);
    try {
      const response = await this.#repeat(method, target, request, signals, { ...options, logId });
      signals.output("debug", `${about}: done after ${Math.round(clock.monotonicMs() - startedAtMs)} ms`);
      return response;
    } catch (error) {
      signals.output("debug", `${about}: ${messageOf(error)}`);
      throw error;
    } finally {
      log.release();
    }
  }

  async #repeat<Method extends CpiMethod>(
    method: Method,
    target: CpiTarget,
    request: RequestOf<Method>,
    signals: CallerSignals,
    { logId, timeoutMs, repeatUnknown = true }: RepeatOptions & { readonly logId: string },
  ): Promise<ResponseOf<Method>> {
    const { client, clock, retryMs, callTimeoutMs, random, checkMayAct } = this.#options;
    const start = client[method] as (request: unknown, options: CallOptions) => Promise<ResponseOf<Method>>;
    const startedAtMs = clock.monotonicMs();
    let someUnknown = false;
    for (let attempts = 0; ; attempts++) {
      try {
        const context = await this.#contextOf(target, signals.requestId, logId);
        checkMayAct();
        const options = {
          signal: signals.stopping,
          deadlineMs: timeoutMs ?? callTimeoutMs,
          requestId: signals.requestId,
        };
        return await start({ ...request, context }, options);
      } catch (error) {
        someUnknown ||= !(error instanceof DomainError) || error.outcome === "unknown";
        const delayMs = Math.max(backoffMs(attempts, BACKOFF, random()), retryAfterMs(error));
        const late = clock.monotonicMs() + delayMs - startedAtMs > retryMs;
        const untold = isConfigUnknown(error);
        const repeatable = untold || (passes(error) && (repeatUnknown || !someUnknown));
        if (!repeatable || late || signals.stopped.aborted) throw new CpiCallError(method, error, { someUnknown });
        // A dispatcher that was restarted knows nothing any more.
        const told = untold && (await this.#tell(method, signals, someUnknown));
        if (!told) await clock.sleep(delayMs, signals.stopped).catch(() => {});
        if (signals.stopped.aborted) throw new CpiCallError(method, error, { someUnknown });
      }
    }
  }

  /** False when the dispatcher could not be told now. One that refuses the config does so next time, too. */
  async #tell(method: CpiMethod, signals: CallerSignals, someUnknown: boolean): Promise<boolean> {
    try {
      await this.#options.cpiConfig.tell(signals.stopping);
      return true;
    } catch (error) {
      if (passes(error) || signals.stopping.aborted) return false;
      throw new CpiCallError(method, error, { someUnknown });
    }
  }

  async #contextOf(target: CpiTarget, requestId: string, logId: string): Promise<CallContext> {
    const { directorId, directorGeneration, cpiConfig, preferredApiVersion } = this.#options;
    const { cpi, az = "", azCpi = "", unknownId = false, stemcellApiVersion = 0 } = target;
    return {
      cpi,
      directorId,
      directorGeneration,
      requestId,
      stemcellApiVersion,
      cpiConfigVersion: await cpiConfig.version(),
      az,
      azCpi,
      unknownId,
      preferredApiVersion,
      logId,
    };
  }
}

function retryAfterMs(error: unknown): number {
  return error instanceof DomainError ? (error.retryAfterMs ?? 0) : 0;
}

import type { CpiServiceDefinition } from "@diskmesh/api/cpi";
import { isCpiError } from "@diskmesh/cpi";
import { type BackoffLimits, backoffMs, DomainError, messageOf } from "@diskmesh/domain";
import type { CallOptions, Client } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import { CpiCallError, passes } from "./cpi-error.js";
import type { CpiEvents } from "./cpi-events.js";
import type { CpiLogs, LogSink } from "./cpi-logs.js";

export type CpiClient = Client<typeof CpiServiceDefinition>;
type CpiMethod = Exclude<keyof CpiClient, "close" | "endCalls" | "fence" | "listCpis" | "setCpiConfig" | "watchCpiLog">;
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
  readonly directorGeneration: () => number;
  readonly cpiConfig: CpiConfigSource;
  readonly logs: CpiLogs;
  readonly events: Pick<CpiEvents, "around">;
  /** Throws while another director may lead. */
  readonly checkMayAct: () => void;
  readonly callTimeoutMs: number;
  readonly retryMs: number;
  /** How long the dispatcher may take to end the calls of a task that shall stop. Then they are cut off. */
  readonly endTimeoutMs: number;
  readonly preferredApiVersion: number;
  readonly clock: Clock;
  readonly random: () => number;
}

/** What a call obeys. */
export interface CallerSignals extends LogSink {
  /** The process ends: the next director fences this one and starts over. */
  readonly stopping: AbortSignal;
  /** The task shall stop. The dispatcher ends calls under way, and says what came of them; none is repeated. */
  readonly stopped: AbortSignal;
  readonly requestId: string;
  readonly taskId: number;
}

export interface RepeatOptions {
  /** Instead of the usual time for a call. */
  readonly timeoutMs?: number;
  /** False for calls that must not be made twice: they are given up when it is not known what came of one. */
  readonly repeatUnknown?: boolean;
}

const BACKOFF: BackoffLimits = { minDelayMs: 100, maxDelayMs: 5_000 };
/** Without a reason, abort() makes an error with its stack each time. */
const SETTLED = "the call has ended";
/** A call may still be on its way to the dispatcher when that is told to end it. */
const END_AGAIN_MS = 250;

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
    const { directorId, clock, logs, events } = this.#options;
    const logId = `${directorId}-${signals.requestId}`;
    const about = `${method} with ${target.cpi === "" ? "the default CPI" : `CPI ${target.cpi}`}`;
    const startedAtMs = clock.monotonicMs();
    const log = logs.listen(logId, signals);
    try {
      const response = await events.around(method, signals.taskId, request, () =>
        this.#repeat(method, target, request, signals, { ...options, logId }),
      );
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
        const deadlineMs = timeoutMs ?? callTimeoutMs;
        const call = (signal: AbortSignal) =>
          start({ ...request, context }, { signal, deadlineMs, requestId: signals.requestId });
        return await this.#untilStopped(call, signals);
      } catch (error) {
        someUnknown ||= !(error instanceof DomainError) || error.outcome === "unknown";
        const delayMs = Math.max(backoffMs(attempts, BACKOFF, random()), retryAfterMs(error));
        const late = clock.monotonicMs() + delayMs - startedAtMs > retryMs;
        const untold = isCpiError(error, "CPI_CONFIG_UNKNOWN");
        const repeatable = untold || (passes(error) && (repeatUnknown || !someUnknown));
        if (!repeatable || late || signals.stopped.aborted) throw new CpiCallError(method, error, { someUnknown });
        // A dispatcher that was restarted knows nothing any more.
        const told = untold && (await this.#tell(method, signals, someUnknown));
        if (!told) await clock.sleep(delayMs, signals.stopped).catch(() => {});
        if (signals.stopped.aborted) throw new CpiCallError(method, error, { someUnknown });
      }
    }
  }

  /** Makes a call. When its task shall stop, it is ended, and its answer still heard if that comes in time. */
  async #untilStopped<Result>(call: (signal: AbortSignal) => Promise<Result>, signals: CallerSignals): Promise<Result> {
    const { stopped, stopping } = signals;
    const [cut, settled] = [new AbortController(), new AbortController()];
    const cutOff = () => cut.abort(stopping.reason);
    const end = () => void this.#endCalls(signals, cut, settled.signal);
    stopping.addEventListener("abort", cutOff);
    stopped.addEventListener("abort", end);
    if (stopping.aborted) cutOff();
    if (stopped.aborted) end();
    try {
      return await call(cut.signal);
    } finally {
      settled.abort(SETTLED);
      stopping.removeEventListener("abort", cutOff);
      stopped.removeEventListener("abort", end);
    }
  }

  /** Has the dispatcher end what runs for a task; cuts the call off if that does not help in time. */
  async #endCalls(signals: CallerSignals, cut: AbortController, settled: AbortSignal): Promise<void> {
    const { client, directorId, directorGeneration, clock, endTimeoutMs } = this.#options;
    const request = { directorId, directorGeneration: directorGeneration(), requestId: signals.requestId };
    const untilMs = clock.monotonicMs() + endTimeoutMs;
    for (let leftMs = endTimeoutMs; leftMs > 0 && !cut.signal.aborted; leftMs = untilMs - clock.monotonicMs()) {
      // A dispatcher that is away, or too old to know how: the call is cut off in the end.
      await client.endCalls(request, { signal: settled, deadlineMs: leftMs }).catch(() => {});
      await clock.sleep(END_AGAIN_MS, settled).catch(() => {});
      if (settled.aborted) return;
    }
    cut.abort(signals.stopped.reason);
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

  async #contextOf(target: CpiTarget, requestId: string, logId: string) {
    const { directorId, directorGeneration, cpiConfig, preferredApiVersion } = this.#options;
    const { cpi, az = "", azCpi = "", unknownId = false, stemcellApiVersion = 0 } = target;
    return {
      cpi,
      directorId,
      directorGeneration: directorGeneration(),
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

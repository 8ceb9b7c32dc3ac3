import { isCpiError } from "@diskmesh/cpi";
import { type BackoffLimits, backoffMs, DomainError, messageOf, UnavailableError } from "@diskmesh/domain";
import type { CallOptions } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import type { Begun } from "../audit/events.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { CallerSignals } from "../tasks/caller-signals.js";
import type { CallRecords } from "./call-records.js";
import type { RetriedCall } from "./cpi-call.js";
import { CpiCallError, isLasting, passes } from "./cpi-error.js";
import type { CpiEvents, NotedMethod } from "./cpi-events.js";
import type { CpiLogs } from "./cpi-logs.js";
import { doneLine, failedLine } from "./debug-line.js";
import type { CpiClient, Dispatcher, Dispatchers } from "./dispatchers.js";
import { LackedMethods } from "./lacked-methods.js";

type CpiMethod = Exclude<keyof CpiClient, "close" | "endCalls" | "fence" | "listCpis" | "setCpiConfig" | "watchCpiLog">;
type RequestOf<Method extends CpiMethod> = Omit<Parameters<CpiClient[Method]>[0], "context">;
type ResponseOf<Method extends CpiMethod> = Awaited<ReturnType<CpiClient[Method]>>;

export interface CpiTarget {
  /** The CPI recorded with the object of the call; empty for the default CPI. */
  readonly cpi: string;
  /** The az, for messages, and for the choice of a CPI when none is recorded. */
  readonly az?: string;
  readonly azCpi?: string;
  /** True when nothing is recorded about the id. The call then goes to the CPI that has the object. */
  readonly unknownId?: boolean;
  /** True when the other CPIs are searched for an object to delete that its CPI does not have. */
  readonly askOthers?: boolean;
  /** CPIs that the search leaves out. */
  readonly exceptCpis?: readonly string[];
  /** The API version of the VM's stemcell; 0 without a stemcell. */
  readonly stemcellApiVersion?: number;
}

/** The cpi-config that calls depend on. */
export interface CpiConfigSource {
  /** Returns an empty string when there is no cpi-config. */
  version(): Promise<string>;
  send(dispatcher: Pick<Dispatcher, "client">, signal: AbortSignal): Promise<void>;
}

export interface CpiCallsOptions {
  readonly dispatchers: Pick<Dispatchers, "choose">;
  readonly records: Pick<CallRecords, "begin" | "end" | "abandon" | "retried">;
  readonly directorId: string;
  readonly directorGeneration: () => number;
  readonly cpiConfig: CpiConfigSource;
  readonly logs: CpiLogs;
  readonly events: Pick<CpiEvents, "around" | "note">;
  /** Throws while another director may lead. */
  readonly checkMayAct: () => void;
  readonly callTimeoutMs: number;
  readonly retryTimeoutMs: number;
  /** Time for a dispatcher to end a call of a stopping task. The call is aborted afterwards. */
  readonly endTimeoutMs: number;
  readonly preferredApiVersion: number;
  readonly newId: () => string;
  readonly clock: Clock;
  readonly random: () => number;
}

export interface RepeatOptions {
  /** Replaces the default call timeout. */
  readonly timeoutMs?: number;
  /** False for calls that must not run twice: the call is not retried after an unknown outcome. */
  readonly repeatUnknown?: boolean;
  /** The begin event that `note` recorded. */
  readonly begun?: Begun;
}

interface CallAt {
  readonly dispatcher: Dispatcher;
  readonly callId: string;
}

interface LostCall extends CallAt {
  /** Monotonic time after which the call is not retried. */
  readonly untilMs: number;
}

interface OneCall extends Pick<RepeatOptions, "timeoutMs">, Omit<LostCall, "callId"> {
  readonly logId: string;
}

const BACKOFF: BackoffLimits = { minDelayMs: 100, maxDelayMs: 5_000 };
/** A reason for abort(), which would otherwise create an error with a stack for each call. */
const SETTLED = "the call has ended";
/** Interval at which a dispatcher is asked again to end a call. */
const END_AGAIN_MS = 250;

/**
 * Calls CPI methods on behalf of tasks, with the director's generation and a time limit. Retries transient failures.
 */
export class CpiCalls {
  readonly #options: CpiCallsOptions;
  readonly #lacked: LackedMethods;

  constructor(options: CpiCallsOptions) {
    this.#options = options;
    this.#lacked = new LackedMethods(options.clock);
  }

  /**
   * Records the begin event of a call in the transaction that intends the call, which saves a commit of the event log.
   * The caller must end the event when an error prevents the call.
   */
  note<Method extends CpiMethod & NotedMethod>(
    tx: DirectorTransaction,
    method: Method,
    request: RequestOf<Method>,
    { taskId }: Pick<CallerSignals, "taskId">,
  ): Begun {
    return this.#options.events.note(tx, method, taskId, request);
  }

  /** Calls a CPI method and retries transient failures. Throws CpiCallError on final failure. */
  async call<Method extends CpiMethod>(
    method: Method,
    target: CpiTarget,
    request: RequestOf<Method>,
    signals: CallerSignals,
    { begun, ...options }: RepeatOptions = {},
  ): Promise<ResponseOf<Method>> {
    const { directorId, logs, events } = this.#options;
    const logId = `${directorId}-${signals.requestId}`;
    const log = logs.listen(logId, signals);
    try {
      const repeat = () => this.#repeatNoted(method, target, request, signals, { ...options, logId });
      return await events.around(method, signals.taskId, request, repeat, begun);
    } finally {
      log.release();
    }
  }

  /**
   * Calls a method that a CPI may lack; returns undefined when it does. A CPI without the method is not asked again for
   * some time. The progress output of only the first task mentions it.
   */
  async callIfKnown<Method extends CpiMethod>(
    method: Method,
    target: CpiTarget,
    request: RequestOf<Method>,
    signals: CallerSignals & { note(stage: string, task: string): void },
    options: RepeatOptions = {},
  ): Promise<ResponseOf<Method> | undefined> {
    const cpi = target.cpi || target.azCpi || "";
    this.#lacked.useConfig(await this.#options.cpiConfig.version());
    if (this.#lacked.isPaused(method, cpi)) return undefined;
    try {
      return await this.call(method, target, request, signals, options);
    } catch (error) {
      if (!(error instanceof CpiCallError && error.isNotImplemented)) throw error;
      // A CPI that has the method but refuses the request may accept another request.
      const isFirst = this.#lacked.add(method, cpi, { pauses: !error.isOf("NOT_SUPPORTED") });
      if (isFirst) signals.note("CPI method missing", messageOf(error));
      return undefined;
    }
  }

  /** Repeats a call, and records for `explain` why it is tried again. */
  async #repeatNoted<Method extends CpiMethod>(
    method: Method,
    target: CpiTarget,
    request: RequestOf<Method>,
    signals: CallerSignals,
    options: Omit<RepeatOptions, "begun"> & { readonly logId: string },
  ): Promise<ResponseOf<Method>> {
    const { records, clock } = this.#options;
    let retried: RetriedCall | undefined;
    const onRetry = (why: string): void => {
      retried ??= { taskId: signals.taskId, method, why, sinceMs: clock.nowMs() };
      retried.why = why;
      records.retried.add(retried);
    };
    try {
      return await this.#repeat(method, target, request, signals, { ...options, onRetry });
    } finally {
      if (retried !== undefined) records.retried.delete(retried);
    }
  }

  async #repeat<Method extends CpiMethod>(
    method: Method,
    target: CpiTarget,
    request: RequestOf<Method>,
    signals: CallerSignals,
    options: Omit<RepeatOptions, "begun"> & { readonly logId: string; readonly onRetry: (why: string) => void },
  ): Promise<ResponseOf<Method>> {
    const { dispatchers, clock, retryTimeoutMs, random } = this.#options;
    const { repeatUnknown = true } = options;
    const untilMs = clock.monotonicMs() + retryTimeoutMs;
    let someUnknown = false;
    let lastingFailures = 0;
    let dispatcher: Dispatcher | undefined;
    for (let attempts = 0; ; attempts++) {
      try {
        dispatcher = dispatchers.choose(dispatcher);
        return await this.#callOnce(method, target, request, signals, { ...options, dispatcher, untilMs });
      } catch (error) {
        if (error instanceof CpiCallError) throw error;
        someUnknown ||= isUnknown(error);
        const delayMs = Math.max(backoffMs(attempts, BACKOFF, random()), retryAfterMs(error));
        if (isLasting(error)) lastingFailures++;
        const isOver = clock.monotonicMs() + delayMs > untilMs || lastingFailures > 1;
        const untold = isCpiError(error, "CPI_CONFIG_UNKNOWN");
        const repeatable = untold || (passes(error) && (repeatUnknown || !someUnknown));
        if (!repeatable || isOver || signals.stopped.aborted) throw new CpiCallError(method, error, { someUnknown });
        // A restarted dispatcher has lost the cpi-config, so the config is sent before the next attempt.
        const told =
          untold && dispatcher !== undefined && (await this.#sendConfig(dispatcher, method, signals, someUnknown));
        if (told) dispatcher = undefined;
        else {
          options.onRetry(messageOf(error));
          signals.output("debug", `${method} is tried again: ${messageOf(error)}`);
          await clock.sleep(delayMs, signals.stopped).catch(() => {});
        }
        if (signals.stopped.aborted) throw new CpiCallError(method, error, { someUnknown });
      }
    }
  }

  /**
   * Makes a call at a dispatcher. A changing call has ended when this returns, unless the dispatcher does not confirm
   * the end.
   */
  async #callOnce<Method extends CpiMethod>(
    method: Method,
    target: CpiTarget,
    request: RequestOf<Method>,
    signals: CallerSignals,
    { dispatcher, untilMs, logId, timeoutMs }: OneCall,
  ): Promise<ResponseOf<Method>> {
    const { records, callTimeoutMs, checkMayAct, newId, clock } = this.#options;
    const { requestId, taskId } = signals;
    const callId = newId();
    const cpi = target.cpi || target.azCpi || "";
    const startedAtMs = clock.monotonicMs();
    const shown = () => {
      const { unknownId = false } = target;
      const durationMs = clock.monotonicMs() - startedAtMs;
      return { method, requestId, callId, cpi, unknownId, request, durationMs };
    };
    const start = dispatcher.client[method] as (request: unknown, options: CallOptions) => Promise<ResponseOf<Method>>;
    const context = await this.#contextOf(target, { requestId, logId, callId });
    const changes = await records.begin(dispatcher, {
      callId,
      taskId,
      requestId,
      method,
      cpi,
      request,
    });
    try {
      checkMayAct();
      const deadlineMs = timeoutMs ?? callTimeoutMs;
      const call = (signal: AbortSignal) => start({ ...request, context }, { signal, deadlineMs, requestId });
      const response = await this.#untilStopped(call, signals, { dispatcher, callId });
      records.end(callId);
      signals.output("debug", doneLine(shown(), response));
      return response;
    } catch (error) {
      signals.output("debug", failedLine(shown(), error));
      // A read-only call may be repeated while an earlier attempt still runs.
      if (!changes || !isUnknown(error) || (await this.#hasEnded(signals, { dispatcher, callId, untilMs }))) {
        records.end(callId);
        throw error;
      }
      records.abandon(callId);
      const { address } = dispatcher;
      const text = `${messageOf(error)}; dispatcher ${address} does not answer and may still run the call`;
      const lost = new UnavailableError(text, { cause: error, outcome: "unknown" });
      throw new CpiCallError(method, lost, { someUnknown: true });
    }
  }

  /**
   * Returns true once the dispatcher confirms that a call without an answer has ended; false when the dispatcher does
   * not confirm in time. The call may be repeated only after the confirmation.
   */
  async #hasEnded(signals: CallerSignals, { dispatcher, callId, untilMs }: LostCall): Promise<boolean> {
    const { clock, random, endTimeoutMs } = this.#options;
    const giveUpMs = Math.max(untilMs, clock.monotonicMs() + endTimeoutMs);
    for (let attempts = 0; !signals.stopping.aborted; attempts++) {
      const options = { signal: signals.stopping, deadlineMs: endTimeoutMs };
      if (await this.#askToEnd(signals, { dispatcher, callId }, options)) return true;
      const delayMs = backoffMs(attempts, BACKOFF, random());
      if (signals.stopped.aborted || clock.monotonicMs() + delayMs > giveUpMs) return false;
      await clock.sleep(delayMs, signals.stopped).catch(() => {});
    }
    return false;
  }

  /** Resolves with true when the dispatcher confirmed that the call does not run. */
  async #askToEnd(
    { requestId }: CallerSignals,
    { dispatcher, callId }: CallAt,
    options: CallOptions,
  ): Promise<boolean> {
    const { directorId, directorGeneration } = this.#options;
    const request = { directorId, directorGeneration: directorGeneration(), requestId, callId };
    return dispatcher.client.endCalls(request, options).then(
      () => true,
      () => false,
    );
  }

  /**
   * Makes a call. When the task stops, has the dispatcher end the call and still waits for the answer for a limited
   * time.
   */
  async #untilStopped<Result>(
    call: (signal: AbortSignal) => Promise<Result>,
    signals: CallerSignals,
    at: CallAt,
  ): Promise<Result> {
    const { stopped, stopping } = signals;
    const cut = new AbortController();
    // Created only for calls that are ended early, because a controller and its abort cost time.
    let settled: AbortController | undefined;
    const cutOff = () => cut.abort(stopping.reason);
    const end = () => {
      settled = new AbortController();
      void this.#endCall(signals, at, cut, settled.signal);
    };
    stopping.addEventListener("abort", cutOff);
    stopped.addEventListener("abort", end);
    if (stopping.aborted) cutOff();
    if (stopped.aborted) end();
    try {
      return await call(cut.signal);
    } finally {
      settled?.abort(SETTLED);
      stopping.removeEventListener("abort", cutOff);
      stopped.removeEventListener("abort", end);
    }
  }

  /** Has the dispatcher end a call of a stopping task. Aborts the call when the dispatcher does not end it in time. */
  async #endCall(signals: CallerSignals, at: CallAt, cut: AbortController, settled: AbortSignal): Promise<void> {
    const { clock, endTimeoutMs } = this.#options;
    const untilMs = clock.monotonicMs() + endTimeoutMs;
    for (let leftMs = endTimeoutMs; leftMs > 0 && !cut.signal.aborted; leftMs = untilMs - clock.monotonicMs()) {
      // The request may fail at an unreachable or old dispatcher; the call is then aborted at the end.
      await this.#askToEnd(signals, at, { signal: settled, deadlineMs: leftMs });
      await clock.sleep(END_AGAIN_MS, settled).catch(() => {});
      if (settled.aborted) return;
    }
    cut.abort(signals.stopped.reason);
  }

  /**
   * Returns false when the dispatcher could not be reached now. Throws CpiCallError when the dispatcher rejects the
   * config, because a retry would fail too.
   */
  async #sendConfig(
    dispatcher: Dispatcher,
    method: CpiMethod,
    signals: CallerSignals,
    someUnknown: boolean,
  ): Promise<boolean> {
    try {
      await this.#options.cpiConfig.send(dispatcher, signals.stopping);
      return true;
    } catch (error) {
      if (passes(error) || signals.stopping.aborted) return false;
      throw new CpiCallError(method, error, { someUnknown });
    }
  }

  async #contextOf(
    target: CpiTarget,
    ids: { readonly requestId: string; readonly logId: string; readonly callId: string },
  ) {
    const { directorId, directorGeneration, cpiConfig, preferredApiVersion } = this.#options;
    const { cpi, az = "", azCpi = "", unknownId = false, stemcellApiVersion = 0 } = target;
    const { askOthers = false, exceptCpis = [] } = target;
    return {
      cpi,
      directorId,
      directorGeneration: directorGeneration(),
      ...ids,
      stemcellApiVersion,
      cpiConfigVersion: await cpiConfig.version(),
      az,
      azCpi,
      unknownId,
      askOthers,
      exceptCpis: [...exceptCpis],
      preferredApiVersion,
    };
  }
}

function isUnknown(error: unknown): boolean {
  return !(error instanceof DomainError) || error.outcome === "unknown";
}

function retryAfterMs(error: unknown): number {
  return error instanceof DomainError ? (error.retryAfterMs ?? 0) : 0;
}

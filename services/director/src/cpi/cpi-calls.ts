import { isCpiError } from "@diskmesh/cpi";
import { type BackoffLimits, backoffMs, DomainError, messageOf, UnavailableError } from "@diskmesh/domain";
import type { CallOptions } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import type { Begun } from "../audit/events.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { CallerSignals } from "../tasks/caller-signals.js";
import type { CallRecords } from "./call-records.js";
import { CpiCallError, passes } from "./cpi-error.js";
import type { CpiEvents, NotedMethod } from "./cpi-events.js";
import type { CpiLogs } from "./cpi-logs.js";
import type { CpiClient, Dispatcher, Dispatchers } from "./dispatchers.js";

type CpiMethod = Exclude<keyof CpiClient, "close" | "endCalls" | "fence" | "listCpis" | "setCpiConfig" | "watchCpiLog">;
type RequestOf<Method extends CpiMethod> = Omit<Parameters<CpiClient[Method]>[0], "context">;
type ResponseOf<Method extends CpiMethod> = Awaited<ReturnType<CpiClient[Method]>>;

/** Which CPI a call is for. */
export interface CpiTarget {
  /** The one that is recorded with the thing the call is about; empty for the default one. */
  readonly cpi: string;
  /** The az, for messages, and for the choice of a CPI where none is recorded. */
  readonly az?: string;
  readonly azCpi?: string;
  /** Nothing is known of the id: whichever CPI has it is meant. */
  readonly unknownId?: boolean;
  /** The API version of the VM's stemcell; 0 when there is none. */
  readonly stemcellApiVersion?: number;
}

/** The cpi-config that calls rely on. */
export interface CpiConfigSource {
  /** Empty when there is no cpi-config. */
  version(): Promise<string>;
  /** Tells a dispatcher about it. */
  tell(dispatcher: Pick<Dispatcher, "client">, signal: AbortSignal): Promise<void>;
}

export interface CpiCallsOptions {
  readonly dispatchers: Pick<Dispatchers, "choose">;
  readonly records: Pick<CallRecords, "begin" | "end" | "abandon">;
  readonly directorId: string;
  readonly directorGeneration: () => number;
  readonly cpiConfig: CpiConfigSource;
  readonly logs: CpiLogs;
  readonly events: Pick<CpiEvents, "around" | "note">;
  /** Throws while another director may lead. */
  readonly checkMayAct: () => void;
  readonly callTimeoutMs: number;
  readonly retryTimeoutMs: number;
  /** How long a dispatcher may take to end a call of a task that shall stop. Then it is cut off. */
  readonly endTimeoutMs: number;
  readonly preferredApiVersion: number;
  readonly newId: () => string;
  readonly clock: Clock;
  readonly random: () => number;
}

export interface RepeatOptions {
  /** Instead of the usual time for a call. */
  readonly timeoutMs?: number;
  /** False for calls that must not be made twice: they are given up when it is not known what came of one. */
  readonly repeatUnknown?: boolean;
  /** Where `note` was called. */
  readonly begun?: Begun;
}

interface CallAt {
  readonly dispatcher: Dispatcher;
  readonly callId: string;
}

interface LostCall extends CallAt {
  /** On the monotonic clock: from then on nothing is repeated. */
  readonly untilMs: number;
}

interface OneCall extends Pick<RepeatOptions, "timeoutMs">, Omit<LostCall, "callId"> {
  readonly logId: string;
}

const BACKOFF: BackoffLimits = { minDelayMs: 100, maxDelayMs: 5_000 };
/** A CPI that lacks a method is asked again after this time: its executable may have been replaced. */
const LACKED_FOR_MS = 600_000;
/** Without a reason, abort() makes an error with its stack each time. */
const SETTLED = "the call has ended";
/** A dispatcher that could not be reached is told again. */
const END_AGAIN_MS = 250;

/** Calls of CPI methods on behalf of tasks: with the director's generation, a time limit, and repeated while that helps. */
export class CpiCalls {
  readonly #options: CpiCallsOptions;
  /** Lacking methods by method, CPI and version of the cpi-config. */
  readonly #lackedUntilMs = new Map<string, number>();

  constructor(options: CpiCallsOptions) {
    this.#options = options;
  }

  /**
   * Tells, in the transaction that intends a call, that it begins: else a commit of the event log goes before it. What
   * throws before the call is made is to end that.
   */
  note<Method extends CpiMethod & NotedMethod>(
    tx: DirectorTransaction,
    method: Method,
    request: RequestOf<Method>,
    { taskId }: Pick<CallerSignals, "taskId">,
  ): Begun {
    return this.#options.events.note(tx, method, taskId, request);
  }

  /** Calls a method of a CPI until it succeeds or fails for good; then throws CpiCallError. */
  async call<Method extends CpiMethod>(
    method: Method,
    target: CpiTarget,
    request: RequestOf<Method>,
    signals: CallerSignals,
    { begun, ...options }: RepeatOptions = {},
  ): Promise<ResponseOf<Method>> {
    const { directorId, clock, logs, events } = this.#options;
    const logId = `${directorId}-${signals.requestId}`;
    const about = `${method} with ${target.cpi === "" ? "the default CPI" : `CPI ${target.cpi}`}`;
    const startedAtMs = clock.monotonicMs();
    const log = logs.listen(logId, signals);
    try {
      const repeat = () => this.#repeat(method, target, request, signals, { ...options, logId });
      const response = await events.around(method, signals.taskId, request, repeat, begun);
      signals.output("debug", `${about}: done after ${Math.round(clock.monotonicMs() - startedAtMs)} ms`);
      return response;
    } catch (error) {
      signals.output("debug", `${about}: ${messageOf(error)}`);
      throw error;
    } finally {
      log.release();
    }
  }

  /**
   * Calls a method that CPIs may lack. A CPI that does is not asked again for some time, with any arguments, and only the
   * first task is told.
   */
  async callIfKnown<Method extends CpiMethod>(
    method: Method,
    target: CpiTarget,
    request: RequestOf<Method>,
    signals: CallerSignals & { note(stage: string, task: string): void },
  ): Promise<void> {
    const { clock, cpiConfig } = this.#options;
    const cpi = target.cpi || target.azCpi || "";
    const key = JSON.stringify([method, cpi, await cpiConfig.version()]);
    const lackedUntilMs = this.#lackedUntilMs.get(key);
    if (lackedUntilMs !== undefined && clock.monotonicMs() < lackedUntilMs) return;
    try {
      await this.call(method, target, request, signals);
    } catch (error) {
      if (!(error instanceof CpiCallError && error.isNotImplemented)) throw error;
      if (lackedUntilMs === undefined) signals.note("CPI method missing", messageOf(error));
      this.#lackedUntilMs.set(key, clock.monotonicMs() + LACKED_FOR_MS);
    }
  }

  async #repeat<Method extends CpiMethod>(
    method: Method,
    target: CpiTarget,
    request: RequestOf<Method>,
    signals: CallerSignals,
    options: Omit<RepeatOptions, "begun"> & { readonly logId: string },
  ): Promise<ResponseOf<Method>> {
    const { dispatchers, clock, retryTimeoutMs, random } = this.#options;
    const { repeatUnknown = true } = options;
    const untilMs = clock.monotonicMs() + retryTimeoutMs;
    let someUnknown = false;
    let dispatcher: Dispatcher | undefined;
    for (let attempts = 0; ; attempts++) {
      try {
        dispatcher = dispatchers.choose(dispatcher);
        return await this.#callOnce(method, target, request, signals, { ...options, dispatcher, untilMs });
      } catch (error) {
        if (error instanceof CpiCallError) throw error;
        someUnknown ||= isUnknown(error);
        const delayMs = Math.max(backoffMs(attempts, BACKOFF, random()), retryAfterMs(error));
        const late = clock.monotonicMs() + delayMs > untilMs;
        const untold = isCpiError(error, "CPI_CONFIG_UNKNOWN");
        const repeatable = untold || (passes(error) && (repeatUnknown || !someUnknown));
        if (!repeatable || late || signals.stopped.aborted) throw new CpiCallError(method, error, { someUnknown });
        // A dispatcher that was restarted knows nothing any more.
        const told = untold && dispatcher !== undefined && (await this.#tell(dispatcher, method, signals, someUnknown));
        if (told) dispatcher = undefined;
        else {
          signals.output("debug", `${method} is tried again: ${messageOf(error)}`);
          await clock.sleep(delayMs, signals.stopped).catch(() => {});
        }
        if (signals.stopped.aborted) throw new CpiCallError(method, error, { someUnknown });
      }
    }
  }

  /** Makes a call at a dispatcher. One that changes something has ended when this returns, unless nobody could find out. */
  async #callOnce<Method extends CpiMethod>(
    method: Method,
    target: CpiTarget,
    request: RequestOf<Method>,
    signals: CallerSignals,
    { dispatcher, untilMs, logId, timeoutMs }: OneCall,
  ): Promise<ResponseOf<Method>> {
    const { records, callTimeoutMs, checkMayAct, newId } = this.#options;
    const { requestId, taskId } = signals;
    const callId = newId();
    const start = dispatcher.client[method] as (request: unknown, options: CallOptions) => Promise<ResponseOf<Method>>;
    const context = await this.#contextOf(target, { requestId, logId, callId });
    const changes = await records.begin(dispatcher, {
      callId,
      taskId,
      requestId,
      method,
      cpi: target.cpi || target.azCpi || "",
      request,
    });
    try {
      checkMayAct();
      const deadlineMs = timeoutMs ?? callTimeoutMs;
      const call = (signal: AbortSignal) => start({ ...request, context }, { signal, deadlineMs, requestId });
      const response = await this.#untilStopped(call, signals, { dispatcher, callId });
      records.end(callId);
      return response;
    } catch (error) {
      // A read-only call may run again while an earlier one still runs.
      if (!changes || !isUnknown(error) || (await this.#hasEnded(signals, { dispatcher, callId, untilMs }))) {
        records.end(callId);
        throw error;
      }
      records.abandon(callId);
      const { address } = dispatcher;
      const text = `${messageOf(error)}; dispatcher ${address}, which may still run it, does not answer`;
      const lost = new UnavailableError(text, { cause: error, outcome: "unknown" });
      throw new CpiCallError(method, lost, { someUnknown: true });
    }
  }

  /** Has a dispatcher end a call whose answer was lost, before anybody repeats it. False when it did not answer in time. */
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

  /** Resolves with true when the dispatcher answered that nothing of the call runs. */
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

  /** Makes a call. When its task shall stop, it is ended, and its answer still heard if that comes in time. */
  async #untilStopped<Result>(
    call: (signal: AbortSignal) => Promise<Result>,
    signals: CallerSignals,
    at: CallAt,
  ): Promise<Result> {
    const { stopped, stopping } = signals;
    const cut = new AbortController();
    // Only of a call that is ended early: to make and abort one takes its time.
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

  /** Has the dispatcher end a call of a task that shall stop; cuts the call off if that does not help in time. */
  async #endCall(signals: CallerSignals, at: CallAt, cut: AbortController, settled: AbortSignal): Promise<void> {
    const { clock, endTimeoutMs } = this.#options;
    const untilMs = clock.monotonicMs() + endTimeoutMs;
    for (let leftMs = endTimeoutMs; leftMs > 0 && !cut.signal.aborted; leftMs = untilMs - clock.monotonicMs()) {
      // A dispatcher that is away, or too old to know how: the call is cut off in the end.
      await this.#askToEnd(signals, at, { signal: settled, deadlineMs: leftMs });
      await clock.sleep(END_AGAIN_MS, settled).catch(() => {});
      if (settled.aborted) return;
    }
    cut.abort(signals.stopped.reason);
  }

  /** False when the dispatcher could not be told now. One that refuses the config does so next time, too. */
  async #tell(
    dispatcher: Dispatcher,
    method: CpiMethod,
    signals: CallerSignals,
    someUnknown: boolean,
  ): Promise<boolean> {
    try {
      await this.#options.cpiConfig.tell(dispatcher, signals.stopping);
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

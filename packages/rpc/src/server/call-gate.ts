import { setImmediate as nextTurn } from "node:timers/promises";
import {
  DomainError,
  formatIdentity,
  type Identity,
  isOperator,
  isScoped,
  messageOf,
  OPERATOR_ROLES,
  PermissionDeniedError,
  ResourceExhaustedError,
  type Role,
  servedElsewhere,
  TimeoutError,
  UnauthenticatedError,
  UnavailableError,
} from "@diskmesh/domain";
import { type Metadata, status } from "@grpc/grpc-js";
import { context } from "@opentelemetry/api";
import { Admission, type CallGroup } from "../call/admission.js";
import { ActiveCall } from "../call/call-context.js";
import { streamOfCall } from "../call/grpc-js-internals.js";
import type { RpcServerLimits } from "../call/limits.js";
import { type Caller, callerOfStream } from "../call/peer-identity.js";
import { REQUEST_ID_HEADER, RequestIds } from "../call/request-id.js";
import { endCall, startServerSpan, type TracedCall, traceIdOf } from "../call/tracing.js";
import { passingCause } from "../errors/passing-causes.js";
import { type GrpcStatus, statusOfError } from "../errors/status-of-error.js";

/** Log record of an answered call whose method may change something. */
export interface RpcChange {
  /** Full path, e.g. `/diskmesh.registry.v1.DiskRegistryService/AddHost`. */
  readonly method: string;
  readonly identity: Identity;
  readonly durationMs: number;
  readonly requestId: string;
  /** Undefined for a stream of requests, which is not kept. */
  readonly request: unknown;
  readonly response: unknown;
}

/** Data about a failed call for the log. */
export interface RpcFailure {
  readonly method: string;
  /** Undefined when the connection was lost before the caller could be identified. */
  readonly identity: Identity | undefined;
  /** Name of the gRPC status, e.g. `NOT_FOUND`. */
  readonly status: string;
  readonly durationMs: number;
  readonly requestId: string;
  /** True when the method may change something. */
  readonly changes: boolean;
  /** Undefined for a stream of requests, or when the request was not decoded. */
  readonly request: unknown;
  /** The thrown value. For INTERNAL, the client does not get it. */
  readonly error: unknown;
  /** True for a bug; false for an error that the client received. */
  readonly unexpected: boolean;
}

/** Properties of a method that decide about admission. */
export interface GatedMethod {
  readonly path: string;
  readonly roles: ReadonlySet<Role>;
  readonly streams: boolean;
  readonly changes: boolean;
  /** True when the method accepts scoped callers. */
  readonly isScoped: boolean;
}

interface IncomingCall {
  readonly metadata: Metadata;
  getDeadline(): Date | number;
}

/** An admitted call, and the functions that end it. */
export interface AdmittedCall {
  readonly active: ActiveCall;
  readonly traced: TracedCall;
  /** Must be called with the response when the call is answered without a failure. */
  succeed(response: unknown): void;
  /** Must be called when the handler has ended, whether or not the client was answered before. */
  release(): void;
}

const RETRY_WHEN_FULL_MS = 200;

/**
 * Number of event-loop turns until an answer is sent completely. grpc-js sends the trailers one turn after the
 * beginning of the answer.
 */
const TURNS_UNTIL_ANSWERED = 2;

/** Streams reserved for each group of calls except "others". */
const RESERVED_STREAMS = 32;

/**
 * Roles with many peers, each of which has a per-peer limit. Every other role has a single peer, bounded only by the
 * limits of the whole server.
 */
const BOUNDED_ROLES: ReadonlySet<Role> = new Set([...OPERATOR_ROLES, "disk-agent", "vm-agent", "nats", "csi"]);

const READS = /\/(?:Get|List|Watch|Explain)(?:[A-Z]\w*)?$/;

/** Returns the group of a call. Calls of a registry to agents are orders; unary calls of agents are reports. */
function groupOf({ role }: Identity, method: GatedMethod): CallGroup {
  if (role === "disk-registry") return "orders";
  if (role === "disk-agent" && !method.streams) return "reports";
  return isOperator(role) && READS.test(method.path) ? "operator reads" : "others";
}

function limitName(method: GatedMethod, full: "peer" | "server") {
  if (method.streams) return full === "peer" ? "maxStreamsPerPeer" : "maxConcurrentStreams";
  return full === "peer" ? "maxCallsPerPeer" : "maxConcurrentCalls";
}

/** Admits or refuses calls by identity, role, deadline and concurrency, and refuses all while the server stops. */
export class CallGate {
  #draining = false;
  readonly #active = new Map<ActiveCall, GatedMethod>();
  readonly #calls: Admission<ActiveCall>;
  readonly #streams: Admission<ActiveCall>;
  readonly #requestIds = new RequestIds();
  #onEmpty: (() => void) | undefined;

  constructor(
    private readonly limits: RpcServerLimits,
    private readonly onError: (failure: RpcFailure) => void,
    private readonly onChange: (change: RpcChange) => void,
  ) {
    const { maxConcurrentCalls, maxCallsPerPeer, maxConcurrentStreams, maxStreamsPerPeer } = limits;
    const tenthOf = (capacity: number) => Math.floor(capacity / 10);
    this.#calls = new Admission({
      capacity: maxConcurrentCalls,
      reserve: tenthOf(maxConcurrentCalls),
      perPeer: maxCallsPerPeer,
    });
    this.#streams = new Admission({
      capacity: maxConcurrentStreams,
      reserve: Math.min(RESERVED_STREAMS, tenthOf(maxConcurrentStreams)),
      perPeer: maxStreamsPerPeer,
    });
  }

  /** Returns undefined when the call was refused; `fail` has then sent the refusal. */
  admit(method: GatedMethod, call: IncomingCall, fail: (status: GrpcStatus) => void): AdmittedCall | undefined {
    const startedMs = performance.now();
    const requestId = this.#requestIds.of(call.metadata.get(REQUEST_ID_HEADER)[0]);
    let caller: Caller | undefined;
    const traced = startServerSpan(method.path, call.metadata);
    let admitted: ActiveCall | undefined;
    const sendFailure = (error: unknown): void => {
      const answer = statusOfError(error, requestId);
      const failure = {
        method: method.path,
        identity: caller?.identity,
        status: status[answer.code],
        durationMs: performance.now() - startedMs,
        requestId,
        changes: method.changes,
        request: admitted?.request,
        error,
        unexpected: !(error instanceof DomainError) && passingCause(error, requestId) === undefined,
      };
      // Runs in the call's trace context, so that the log line contains the trace id.
      context.with(traced.context, () => report(() => this.onError(failure)));
      endCall(traced, answer.code, error instanceof Error ? error : new Error(messageOf(error)));
      fail(answer);
    };
    try {
      caller = callerOfStream(streamOfCall(call));
      const nowMs = Date.now();
      this.#authorise(method, caller, nowMs);
      const deadlineAtMs = this.#deadlineOf(method, call, nowMs);
      if (deadlineAtMs <= nowMs)
        throw new TimeoutError(`the deadline of ${method.path} had passed when the call arrived; nothing was done`);
      if (this.#draining) throw servedElsewhere("the server is stopping; call another process, or try again later");
      const active = new ActiveCall({
        identity: caller.identity,
        requestId,
        traceId: traceIdOf(traced),
        deadlineAtMs,
        streams: method.streams,
        group: groupOf(caller.identity, method),
        peer: BOUNDED_ROLES.has(caller.identity.role) ? caller.name : undefined,
        sendFailure,
      });
      this.#enter(active, method);
      // grpc-js enforces only deadlines that the client sent; other deadlines need a timer here.
      if (deadlineAtMs !== deadlineSentBy(call) && deadlineAtMs !== Number.POSITIVE_INFINITY)
        active.startTimer(deadlineAtMs - nowMs);
      this.#active.set(active, method);
      admitted = active;
      const succeed = (response: unknown): void => {
        if (method.changes) this.#tellChange(method, active, traced, response);
        endCall(traced, status.OK);
      };
      return { active, traced, succeed, release: () => this.#release(active) };
    } catch (error) {
      sendFailure(error);
      return undefined;
    }
  }

  /**
   * Refuses new calls, ends streams, and waits for the calls under way. After the drain timeout it fails the remaining
   * calls and returns without waiting for handlers that ignore their signal.
   */
  async drain(): Promise<void> {
    this.#draining = true;
    const stopping = new UnavailableError("the server is stopping; whether the call took effect is not known", {
      outcome: "unknown",
    });
    // Streams are ended first, because watches never end by themselves.
    for (const [active, method] of this.#active) if (method.streams) active.abort(stopping);
    await this.#empty(this.limits.drainTimeoutMs);
    for (const active of this.#active.keys()) active.abort(stopping);
    // Within these turns the last calls are answered and logged.
    for (let turn = 0; turn < TURNS_UNTIL_ANSWERED; turn++) await nextTurn();
  }

  /** Fails all calls under way with the reason and aborts their handlers. New calls are still admitted. */
  abortCalls(reason: DomainError): void {
    for (const active of this.#active.keys()) active.abort(reason);
  }

  #empty(timeoutMs: number): Promise<void> {
    if (this.#active.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, timeoutMs);
      this.#onEmpty = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #release(active: ActiveCall): void {
    this.#calls.leave(active);
    this.#streams.leave(active);
    if (this.#active.delete(active) && this.#active.size === 0) this.#onEmpty?.();
  }

  #enter(active: ActiveCall, method: GatedMethod): void {
    const { limits } = this;
    const entry = method.streams
      ? this.#streams.enter(active, performance.now() - limits.minStreamIdleMs)
      : this.#calls.enter(active, Number.NEGATIVE_INFINITY);
    if ("full" in entry) {
      const name = limitName(method, entry.full);
      const whose = entry.full === "peer" ? formatIdentity(active.identity) : "this server";
      const what = method.streams ? "streams" : "calls";
      throw new ResourceExhaustedError(
        `${whose} already has ${limits[name]} open ${what}, the limit (${name}); end some, or try again later`,
        { reason: "QUEUE_FULL", retryAfterMs: RETRY_WHEN_FULL_MS },
      );
    }
    entry.evicted?.abort(
      new UnavailableError(
        "the server closed this stream, the longest idle, to admit another; open it again when needed",
        {
          retryAfterMs: RETRY_WHEN_FULL_MS,
          outcome: "unknown",
        },
      ),
    );
  }

  #authorise(method: GatedMethod, { identity, name, endsAtMs }: Caller, nowMs: number): void {
    // A connection may outlive its certificate, which the handshake checked only once.
    if (endsAtMs <= nowMs)
      throw new UnauthenticatedError(
        `the certificate of ${name} ended at ${new Date(endsAtMs).toISOString()} by this server's clock: renew it`,
        { about: { identity: name } },
      );
    if (method.roles.has(identity.role)) {
      if (method.isScoped || !isScoped(identity)) return;
      throw new PermissionDeniedError(
        `${name} may not call ${method.path}: its rights end at a scope, which this method does not have`,
        { about: { identity: name, method: method.path } },
      );
    }
    const allowed = [...method.roles].join(", ") || "nobody";
    throw new PermissionDeniedError(`${name} may not call ${method.path}: allowed are ${allowed}`, {
      about: { identity: name, method: method.path, allowed_roles: allowed },
    });
  }

  #deadlineOf(method: GatedMethod, call: IncomingCall, nowMs: number): number {
    const sent = deadlineSentBy(call);
    if (method.streams) return sent;
    if (sent === Number.POSITIVE_INFINITY) return nowMs + this.limits.defaultDeadlineMs;
    return Math.min(sent, nowMs + this.limits.maxDeadlineMs);
  }

  #tellChange({ path }: GatedMethod, active: ActiveCall, traced: TracedCall, response: unknown): void {
    const { identity, requestId, request } = active;
    const durationMs = performance.now() - traced.startedMs;
    const change = { method: path, identity, durationMs, requestId, request, response };
    const tell = (): void => context.with(traced.context, () => report(() => this.onChange(change)));
    // Logged after the answer, because a log line costs a third of a minimal call and the client need not wait for it.
    afterTurns(TURNS_UNTIL_ANSWERED, tell);
  }
}

function afterTurns(turns: number, run: () => void): void {
  if (turns === 0) run();
  else setImmediate(afterTurns, turns - 1, run);
}

function report(tell: () => void): void {
  try {
    tell();
  } catch {
    // A failing log must not fail the call.
  }
}

function deadlineSentBy(call: IncomingCall): number {
  const deadline = call.getDeadline();
  return typeof deadline === "number" ? deadline : deadline.getTime();
}

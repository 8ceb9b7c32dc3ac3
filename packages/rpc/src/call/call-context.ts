import { type Identity, TimeoutError } from "@diskmesh/domain";
import type { CallGroup, CountedCall } from "./admission.js";

/** Data about a call for its handler. */
export interface CallContext {
  /**
   * Aborts when the client cancels, when the deadline passes, and when the server stops. The reason is a DomainError.
   */
  readonly signal: AbortSignal;
  /** Deadline of the call, in milliseconds since 1970. Infinity only for streams. */
  readonly deadlineAtMs: number;
  /** Identity in the caller's certificate. */
  readonly identity: Identity;
  /** Id of this call in logs: the client's id if well-formed, otherwise a generated one. */
  readonly requestId: string;
  /** Set when something other than the certificate identified the caller. */
  readonly authentication?: "password" | "token" | "session" | "link" | undefined;
  /** Teams at whose objects the caller's rights end. Absent where they do not end, and for certificates. */
  readonly teams?: readonly string[] | undefined;
  /** Id of the trace that the call is part of; absent without tracing. */
  readonly traceId?: string | undefined;
  /**
   * Id that the caller chose for a group of calls, to find the tasks that these calls started. Absent without a group.
   */
  readonly contextId?: string | undefined;
}

export interface ActiveCallOptions extends Pick<CountedCall, "group" | "peer"> {
  readonly identity: Identity;
  readonly requestId: string;
  readonly traceId: string | undefined;
  readonly deadlineAtMs: number;
  readonly streams: boolean;
  /** Sends the failure to the client. Called at most once, and only while the call is unanswered. */
  readonly sendFailure: (error: unknown) => void;
}

/** A call from its admission to the end of its handler. The handler may end after the answer was sent. */
export class ActiveCall implements CallContext, CountedCall {
  readonly identity: Identity;
  readonly requestId: string;
  readonly traceId: string | undefined;
  readonly deadlineAtMs: number;
  readonly group: CallGroup;
  readonly peer: string | undefined;
  idleSinceMs: number | undefined;
  /** Decoded request. Undefined before decoding, and always for a stream of requests. */
  request: unknown;
  readonly #sendFailure: (error: unknown) => void;
  /** True once an answer was sent or can no longer be sent. */
  answered = false;
  #controller: AbortController | undefined;
  #abortReason: Error | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ActiveCallOptions) {
    this.identity = options.identity;
    this.requestId = options.requestId;
    this.traceId = options.traceId;
    this.deadlineAtMs = options.deadlineAtMs;
    this.group = options.group;
    this.peer = options.peer;
    this.idleSinceMs = options.streams ? performance.now() : undefined;
    this.#sendFailure = options.sendFailure;
  }

  /** Resets the idle time of a stream, after a message was sent or received. */
  touch(): void {
    if (this.idleSinceMs !== undefined) this.idleSinceMs = performance.now();
  }

  // Created on demand, because most handlers of short calls never use the signal and an AbortController per call is a
  // measurable cost.
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#abortReason) this.#controller.abort(this.#abortReason);
    }
    return this.#controller.signal;
  }

  get aborted(): Error | undefined {
    return this.#abortReason;
  }

  startTimer(timeoutMs: number): void {
    this.#timer = setTimeout(() => {
      this.abort(new TimeoutError(`the call took longer than the ${timeoutMs} ms that this server allows`));
    }, timeoutMs);
  }

  /**
   * Aborts the handler and answers the client at once, so that a handler that ignores its signal does not delay the
   * answer.
   */
  abort(reason: Error): void {
    if (this.#abortReason) return;
    this.#abortReason = reason;
    this.#controller?.abort(reason);
    this.fail(reason);
  }

  fail(error: unknown): void {
    if (this.answered) return;
    this.answered = true;
    clearTimeout(this.#timer);
    this.#sendFailure(error);
  }

  /** Claims the right to send the answer; returns false when the call is already answered. */
  takeAnswer(): boolean {
    if (this.answered) return false;
    this.answered = true;
    clearTimeout(this.#timer);
    return true;
  }
}

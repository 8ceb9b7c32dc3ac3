import { type Identity, TimeoutError } from "@diskmesh/domain";
import type { Guest, Share } from "./room.js";

/** What a handler knows of the call it serves. */
export interface CallContext {
  /** Aborts when the client cancels, when the deadline passes, and when the server stops. Its reason is a DomainError. */
  readonly signal: AbortSignal;
  /** When the call must have ended, in milliseconds since 1970. Infinity only for streams. */
  readonly deadlineAtMs: number;
  /** Who calls, as the client certificate says. */
  readonly identity: Identity;
  /** Names this call in logs; the client's own when it gave a well-formed one. */
  readonly requestId: string;
  /** How the caller has shown who it is; absent: by its certificate. */
  readonly authentication?: "password" | "token" | "session" | undefined;
  /** Of the trace that it is a part of; absent where nobody traces. */
  readonly traceId?: string | undefined;
  /** By which the caller finds again what several of its calls began; absent for none. */
  readonly contextId?: string | undefined;
}

export interface ActiveCallOptions extends Pick<Guest, "share" | "peer"> {
  readonly identity: Identity;
  readonly requestId: string;
  readonly traceId: string | undefined;
  readonly deadlineAtMs: number;
  readonly streams: boolean;
  /** Sends the failure to the client; called at most once, and only while the call is unanswered. */
  readonly sendFailure: (error: unknown) => void;
}

/** A call from its admission until its handler has ended, which may be after its answer was sent. */
export class ActiveCall implements CallContext, Guest {
  readonly identity: Identity;
  readonly requestId: string;
  readonly traceId: string | undefined;
  readonly deadlineAtMs: number;
  readonly share: Share;
  readonly peer: string | undefined;
  idleSinceMs: number | undefined;
  /** Once it was decoded; undefined of one that comes as a stream. */
  request: unknown;
  readonly #sendFailure: (error: unknown) => void;
  /** True once an answer was sent or none can be sent any more. */
  answered = false;
  #controller: AbortController | undefined;
  #abortReason: Error | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ActiveCallOptions) {
    this.identity = options.identity;
    this.requestId = options.requestId;
    this.traceId = options.traceId;
    this.deadlineAtMs = options.deadlineAtMs;
    this.share = options.share;
    this.peer = options.peer;
    this.idleSinceMs = options.streams ? performance.now() : undefined;
    this.#sendFailure = options.sendFailure;
  }

  /** Of a stream: a message came or went. */
  touch(): void {
    if (this.idleSinceMs !== undefined) this.idleSinceMs = performance.now();
  }

  // Made on demand: most handlers of short calls never look at it, and an AbortController per call is measurable.
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

  /** Tells the handler to stop and answers the client at once, so that a handler that does not listen delays nobody. */
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

  /** True when the caller may send the answer; false when one was sent before. */
  takeAnswer(): boolean {
    if (this.answered) return false;
    this.answered = true;
    clearTimeout(this.#timer);
    return true;
  }
}

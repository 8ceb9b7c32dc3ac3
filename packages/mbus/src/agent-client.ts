import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import {
  CancelledError,
  DomainError,
  type JsonObject,
  type Logger,
  messageOf,
  NotImplementedError,
  parseId,
  ResourceExhaustedError,
  silentLogger,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import { AgentError } from "./agent-error.js";
import type { Message, NatsConnection, Subscription } from "./connection.js";
import { type AgentReply, decodeReply, encodeRequest, truncateMiddle } from "./envelope.js";
import { type Notice, watchHeartbeats, watchNotices } from "./heartbeats.js";
import { measured } from "./metrics.js";
import { redactedArguments, redactorOf } from "./redaction.js";
import { isRunningTask, unknownMethodText, unknownTaskText } from "./running-task.js";
import { agentSubject, parseReplySubject, repliesSubject, replySubject } from "./subjects.js";
import { TimeLimit } from "./time-limit.js";
import { currentTraceHeaders, inSpan } from "./tracing.js";

export interface AgentClientOptions {
  readonly nats: NatsConnection;
  /**
   * Id of this director process. Unique per process, so that replies to an earlier process are not taken for replies to
   * this one.
   */
  readonly directorId: string;
  /** Timeout of one reply. */
  readonly requestTimeoutMs: number;
  /** Timeout of a whole call, polling included. */
  readonly callTimeoutMs: number;
  /** Longest wait between two polls of a long request. */
  readonly taskPollIntervalMs: number;
  /** Maximum number of requests that wait for their reply at the same time. */
  readonly maxPendingRequests?: number;
  readonly log?: Logger;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** Overrides callTimeoutMs. */
  readonly timeoutMs?: number;
  /** Overrides requestTimeoutMs, e.g. for `start`, which answers only when jobs run. */
  readonly requestTimeoutMs?: number;
  /** With "ignored", a method unknown to the agent returns undefined instead of throwing NotImplementedError. */
  readonly unknownMethodIs?: "error" | "ignored";
  /**
   * Time in which the agent may answer with the result of a long method instead of a task to poll; 0 by default. Stock
   * agents ignore it. Within this time the task id is unknown, so a caller that gives up cannot cancel the task.
   */
  readonly answerWithinMs?: number;
}

interface PendingRequest {
  readonly agentId: string;
  readonly isSent: () => boolean;
  readonly settle: (outcome: AgentReply | Error) => void;
}

const MAX_PENDING_REQUESTS = 10_000;
const FIRST_POLL_DELAY_MS = 5;
const MAX_MESSAGE_LENGTH = 4_096;
/** Time for which an agent counts as heard after a heartbeat. Stock agents send one every 30 s. */
const HEARD_FOR_MS = 90_000;

/** Director side of mbus: one client per process for all agents. */
export class AgentClient {
  readonly #options: AgentClientOptions;
  readonly #log: Logger;
  readonly #pending = new Map<string, PendingRequest>();
  readonly #subscription: Subscription;
  readonly #forgetListener: () => void;
  readonly #heardListeners = new Set<(agentId: string) => void>();
  readonly #heartbeatListeners = new Set<(agentId: string, heartbeat: JsonObject) => void>();
  /** One subscription for all listeners, because a thousand agents send heartbeats all the time. */
  #heartbeats: Subscription | undefined;
  /** Monotonic times of the agents' last heartbeats, oldest first; none is older than HEARD_FOR_MS. */
  readonly #heardAtMs = new Map<string, number>();
  #isClosed = false;

  constructor(options: AgentClientOptions) {
    this.#options = options;
    this.#log = options.log ?? silentLogger;
    this.#subscription = options.nats.subscribe(repliesSubject(options.directorId), (message) =>
      this.#onReply(message),
    );
    // NATS stores nothing for a disconnected subscriber, so pending requests can no longer get a reply.
    this.#forgetListener = options.nats.onDisconnected(() => this.#failAll("the connection to NATS was lost"));
  }

  /**
   * Runs a method on an agent and returns its result; long methods are polled until they end. Throws AgentError when
   * the agent reports a failure, UnavailableError when no reply came (with outcome not_done if nothing was sent),
   * TimeoutError when a long method still runs at the end of the time, CancelledError when the signal aborts.
   */
  async call(agentId: string, method: string, args: readonly unknown[], options: CallOptions = {}): Promise<unknown> {
    parseId("agent_id", agentId);
    const span = { side: "client", method, agentId } as const;
    return measured(method, () => inSpan(span, () => this.#call(agentId, method, args, options)));
  }

  async #call(agentId: string, method: string, args: readonly unknown[], options: CallOptions): Promise<unknown> {
    const limit = new TimeLimit(options.timeoutMs ?? this.#options.callTimeoutMs, options.signal);
    const requestTimeoutMs = options.requestTimeoutMs ?? this.#options.requestTimeoutMs;
    try {
      const call = { agentId, method, args, limit, requestTimeoutMs, answerWithinMs: options.answerWithinMs ?? 0 };
      const reply = await this.#request(call, method, args);
      if ("exception" in reply && reply.exception === unknownMethodText(method)) {
        if (options.unknownMethodIs === "ignored") return undefined;
        throw new NotImplementedError(`agent ${agentId} does not support the method ${method}`);
      }
      const value = replyValue(reply, call);
      return isRunningTask(value) ? await this.#awaitTask(call, value.agent_task_id) : value;
    } finally {
      limit.release();
    }
  }

  /** Calls back on each reply or heartbeat of an agent. Returns a function that removes the listener. */
  onHeard(listener: (agentId: string) => void): () => void {
    const forget = this.onHeartbeat(listener);
    this.#heardListeners.add(listener);
    return () => {
      forget();
      this.#heardListeners.delete(listener);
    };
  }

  /** Calls back on each heartbeat. Returns a function that removes the listener. */
  onHeartbeat(listener: (agentId: string, heartbeat: JsonObject) => void): () => void {
    const listeners = this.#heartbeatListeners;
    listeners.add(listener);
    this.#heartbeats ??= watchHeartbeats(
      this.#options.nats,
      (agentId, heartbeat) => {
        this.#heardAtMs.delete(agentId);
        this.#heardAtMs.set(agentId, performance.now());
        this.#forgetUnheard();
        for (const each of listeners) each(agentId, heartbeat);
      },
      this.#log,
    );
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0) return;
      this.#heartbeats?.unsubscribe();
      this.#heartbeats = undefined;
    };
  }

  #forgetUnheard(): void {
    const unheardMs = performance.now() - HEARD_FOR_MS;
    for (const [agentId, atMs] of this.#heardAtMs) {
      if (atMs > unheardMs) return;
      this.#heardAtMs.delete(agentId);
    }
  }

  /** NATS reports immediately that no agent subscribes to the subject, so nothing was delivered. */
  #notThere(agentId: string): Error {
    this.#forgetUnheard();
    const why = this.#heardAtMs.has(agentId)
      ? "is heard but does not subscribe to its requests: see its log, and permit the subscription to its NATS user"
      : "is not connected to NATS: check that the agent runs";
    return new UnavailableError(`agent ${agentId} ${why}`, { outcome: "not_done", about: { agent_id: agentId } });
  }

  /** Calls back on each alert and shutdown. Returns a function that removes the listener. */
  onNotice(listener: (agentId: string, notice: Notice) => void): () => void {
    return watchNotices(this.#options.nats, listener, this.#log);
  }

  /**
   * Calls back after each connect to NATS; messages sent while disconnected were missed. Returns a function that removes
   * the listener.
   */
  onConnected(listener: () => void): () => void {
    return this.#options.nats.onConnected(listener);
  }

  /** True while connected to NATS. Without the connection, missing heartbeats do not mean that an agent is down. */
  get isConnected(): boolean {
    return this.#options.nats.isConnected;
  }

  /** Fails pending requests and stops receiving. Leaves the connection open. */
  close(): void {
    this.#isClosed = true;
    this.#subscription.unsubscribe();
    this.#forgetListener();
    this.#failAll("the client was closed");
  }

  async #awaitTask(call: Call, taskId: string): Promise<unknown> {
    const { agentId, method } = call;
    try {
      // Most long methods end within milliseconds, so polling starts fast and backs off.
      for (let delayMs = FIRST_POLL_DELAY_MS; ; delayMs *= 2) {
        const waitMs = Math.min(delayMs, this.#options.taskPollIntervalMs);
        await sleep(waitMs, undefined, { signal: call.limit.signal }).catch(() => {});
        if (call.limit.hasEnded) throw endOf(call, `agent ${agentId} still runs ${method}`);
        const reply = await this.#poll(call, taskId);
        if (reply === undefined) continue;
        if ("exception" in reply && reply.exception.includes(unknownTaskText(taskId)))
          throw new UnavailableError(
            `agent ${agentId} was restarted while it ran ${method}: the outcome is not known; try again`,
            { outcome: "unknown", about: { agent_id: agentId } },
          );
        const value = replyValue(reply, call);
        if (!isRunningTask(value)) return value;
      }
    } catch (error) {
      if (call.limit.hasEnded) this.#cancelTask(agentId, taskId);
      throw error;
    }
  }

  /**
   * Polls once; returns undefined when the reply was lost. The caller then polls again, because a repeated poll is
   * harmless.
   */
  async #poll(call: Call, taskId: string): Promise<AgentReply | undefined> {
    try {
      return await this.#request(call, "get_task", [taskId]);
    } catch (error) {
      if (call.limit.hasEnded) throw endOf(call, `agent ${call.agentId} still runs ${call.method}`);
      if (error instanceof DomainError && error.retryable) return undefined;
      throw error;
    }
  }

  #cancelTask(agentId: string, taskId: string): void {
    const { requestTimeoutMs } = this.#options;
    const limit = new TimeLimit(requestTimeoutMs);
    const args = [taskId];
    const call = { agentId, method: "cancel_task", args, limit, requestTimeoutMs, answerWithinMs: 0 };
    this.#request(call, call.method, args)
      .catch((error: unknown) => this.#log.debug({ agentId, error }, "agent task cancellation failed"))
      .finally(() => limit.release());
  }

  async #request(call: Call, method: string, args: readonly unknown[]): Promise<AgentReply> {
    const { agentId } = call;
    const { directorId, maxPendingRequests = MAX_PENDING_REQUESTS, nats } = this.#options;
    if (this.#isClosed) throw new CancelledError(`${method} was not sent to agent ${agentId}: the client was closed`);
    const requestId = randomUUID();
    const reply = replySubject(directorId, agentId, requestId);
    const traceHeaders = currentTraceHeaders();
    const data = encodeRequest({
      method,
      args,
      replyTo: reply,
      traceHeaders,
      answerWithinMs: method === call.method ? call.answerWithinMs : 0,
    });
    if (this.#pending.size >= maxPendingRequests)
      throw new ResourceExhaustedError(
        `${maxPendingRequests} requests to agents already wait, the limit (maxPendingRequests)`,
      );
    if (call.limit.hasEnded) throw endOf(call, `${method} was not sent to agent ${agentId}`);
    const limit = new TimeLimit(call.requestTimeoutMs, call.limit);
    let isSent = false;
    try {
      return await new Promise<AgentReply>((resolve, reject) => {
        const settle = (outcome: AgentReply | Error) => (outcome instanceof Error ? reject(outcome) : resolve(outcome));
        this.#pending.set(requestId, { agentId, settle, isSent: () => isSent });
        limit.onEnd(reject);
        const connected = nats.isConnected ? Promise.resolve() : nats.whenConnected(limit.signal);
        connected
          .then(() => {
            nats.publish(agentSubject(agentId), data, { reply });
            isSent = true;
            this.#log.debug({ agentId, method, arguments: redactedArguments(method, args) }, "agent request sent");
          })
          .catch(reject);
      });
    } catch (error) {
      if (!limit.hasEnded) throw error;
      if (call.limit.hasEnded && !call.limit.isTimeUp) throw endOf(call, `agent ${agentId} was called with ${method}`);
      throw isSent ? noReply(agentId, method) : notSent(agentId, method);
    } finally {
      limit.release();
      this.#pending.delete(requestId);
    }
  }

  #onReply(message: Message): void {
    const address = parseReplySubject(message.subject);
    // NATS permissions let an agent reply only under its own id, so the subject proves the sender.
    if (!address) return;
    // A late reply counts as a sign of life, too, although no caller waits for it.
    if (!message.isNoResponder) for (const listener of this.#heardListeners) listener(address.agentId);
    const request = this.#pending.get(address.requestId);
    if (request?.agentId !== address.agentId) return;
    request.settle(message.isNoResponder ? this.#notThere(address.agentId) : readReply(address.agentId, message.data));
  }

  #failAll(reason: string): void {
    for (const { agentId, isSent, settle } of [...this.#pending.values()]) {
      const outcome = isSent() ? "unknown" : "not_done";
      settle(new UnavailableError(`no reply from agent ${agentId}: ${reason}`, { outcome }));
    }
  }
}

interface Call {
  readonly agentId: string;
  readonly method: string;
  readonly args: readonly unknown[];
  /** Time limit of the whole call; also ends when the caller gives up. */
  readonly limit: TimeLimit;
  readonly requestTimeoutMs: number;
  readonly answerWithinMs: number;
}

function replyValue(reply: AgentReply, { agentId, method, args }: Call): unknown {
  if ("value" in reply) return reply.value;
  const said = redactorOf(method, args).text(reply.exception);
  throw new AgentError(agentId, method, truncateMiddle(said, MAX_MESSAGE_LENGTH));
}

function endOf(call: Call, situation: string): Error {
  const details = { about: { agent_id: call.agentId } };
  return call.limit.isTimeUp
    ? new TimeoutError(`${situation}, and the time limit has passed`, details)
    : new CancelledError(`${situation}, and the caller gave up`, details);
}

function noReply(agentId: string, method: string): Error {
  return new UnavailableError(
    `agent ${agentId} did not reply to ${method} in time: the outcome is not known; check that the agent runs`,
    { outcome: "unknown", about: { agent_id: agentId } },
  );
}

function notSent(agentId: string, method: string): Error {
  return new UnavailableError(
    `${method} was not sent to agent ${agentId}: NATS was not connected in time; check that nats-server runs`,
    { outcome: "not_done", about: { agent_id: agentId } },
  );
}

function readReply(agentId: string, data: Uint8Array): AgentReply | Error {
  try {
    return decodeReply(data);
  } catch (error) {
    return new UnavailableError(`agent ${agentId} sent a malformed reply: ${messageOf(error)}`, {
      outcome: "unknown",
      about: { agent_id: agentId },
    });
  }
}

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
import { SpanKind } from "@opentelemetry/api";
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
  /** Unique to this process, so that no reply to a former one is taken for ours. */
  readonly directorId: string;
  /** How long one reply may take. */
  readonly requestTimeoutMs: number;
  /** How long a whole call may take, polling included. */
  readonly callTimeoutMs: number;
  /** The longest wait between two polls of a long request. */
  readonly taskPollIntervalMs: number;
  /** Most requests that wait for their reply at once. */
  readonly maxPendingRequests?: number;
  readonly log?: Logger;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** Overrides callTimeoutMs. */
  readonly timeoutMs?: number;
  /** Overrides requestTimeoutMs, e.g. for `start`, which answers only when jobs run. */
  readonly requestTimeoutMs?: number;
  /** With "ignored", a method that the agent does not know gives undefined; else NotImplementedError. */
  readonly unknownMethodIs?: "error" | "ignored";
  /**
   * The agent may take so long to answer with the result of a long method, instead of being polled for it; stock agents
   * do not know the wish. Until then it is not known which task to cancel, should the caller give up. 0 by default.
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

/** The director's side of mbus: one per process, for all agents. */
export class AgentClient {
  readonly #options: AgentClientOptions;
  readonly #log: Logger;
  readonly #pending = new Map<string, PendingRequest>();
  readonly #subscription: Subscription;
  readonly #forgetListener: () => void;
  readonly #heardListeners = new Set<(agentId: string) => void>();
  readonly #heartbeatListeners = new Set<(agentId: string, heartbeat: JsonObject) => void>();
  /** One for all: a thousand agents beat all the time. */
  #heartbeats: Subscription | undefined;
  #isClosed = false;

  constructor(options: AgentClientOptions) {
    this.#options = options;
    this.#log = options.log ?? silentLogger;
    this.#subscription = options.nats.subscribe(repliesSubject(options.directorId), (message) =>
      this.#onReply(message),
    );
    // NATS keeps nothing for a subscriber that is away: what is under way will hear no reply any more.
    this.#forgetListener = options.nats.onDisconnected(() => this.#failAll("the connection to NATS was lost"));
  }

  /**
   * Has an agent run a method and returns its result; long ones are polled until they end. Errors: AgentError when the
   * agent says that it failed, UnavailableError when no reply came (with outcome not_done if nothing was sent),
   * TimeoutError when a long one still runs at the end of the time, CancelledError when the signal aborts.
   */
  async call(agentId: string, method: string, args: readonly unknown[], options: CallOptions = {}): Promise<unknown> {
    parseId("agent_id", agentId);
    const span = { kind: SpanKind.CLIENT, agentId };
    return measured(method, () => inSpan(`mbus ${method}`, span, () => this.#call(agentId, method, args, options)));
  }

  async #call(agentId: string, method: string, args: readonly unknown[], options: CallOptions): Promise<unknown> {
    const limit = new TimeLimit(options.timeoutMs ?? this.#options.callTimeoutMs, options.signal);
    const requestTimeoutMs = options.requestTimeoutMs ?? this.#options.requestTimeoutMs;
    try {
      const call = { agentId, method, args, limit, requestTimeoutMs, answerWithinMs: options.answerWithinMs ?? 0 };
      const reply = await this.#request(call, method, args);
      if ("exception" in reply && reply.exception === unknownMethodText(method)) {
        if (options.unknownMethodIs === "ignored") return undefined;
        throw new NotImplementedError(`agent ${agentId} does not know the method ${method}`);
      }
      const value = replyValue(reply, call);
      return isRunningTask(value) ? await this.#awaitTask(call, value.agent_task_id) : value;
    } finally {
      limit.release();
    }
  }

  /** Calls back whenever an agent is heard, by a reply or a heartbeat. Returns how to stop that. */
  onHeard(listener: (agentId: string) => void): () => void {
    const forget = this.onHeartbeat(listener);
    this.#heardListeners.add(listener);
    return () => {
      forget();
      this.#heardListeners.delete(listener);
    };
  }

  /** Calls back for each heartbeat. Returns how to stop that. */
  onHeartbeat(listener: (agentId: string, heartbeat: JsonObject) => void): () => void {
    const listeners = this.#heartbeatListeners;
    listeners.add(listener);
    this.#heartbeats ??= watchHeartbeats(
      this.#options.nats,
      (agentId, heartbeat) => {
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

  /** Calls back for each alert and shutdown. Returns how to stop that. */
  onNotice(listener: (agentId: string, notice: Notice) => void): () => void {
    return watchNotices(this.#options.nats, listener, this.#log);
  }

  /** Calls back after each connect to NATS: whoever was heard before it was heard by others. Returns how to stop that. */
  onConnected(listener: () => void): () => void {
    return this.#options.nats.onConnected(listener);
  }

  /** While false, that an agent does not answer says nothing of the agent. */
  get isConnected(): boolean {
    return this.#options.nats.isConnected;
  }

  /** Fails what is under way and hears no more replies. Leaves the connection open. */
  close(): void {
    this.#isClosed = true;
    this.#subscription.unsubscribe();
    this.#forgetListener();
    this.#failAll("the client was closed");
  }

  async #awaitTask(call: Call, taskId: string): Promise<unknown> {
    const { agentId, method } = call;
    try {
      // Most long methods end within milliseconds: ask soon at first, then ever less often.
      for (let delayMs = FIRST_POLL_DELAY_MS; ; delayMs *= 2) {
        const waitMs = Math.min(delayMs, this.#options.taskPollIntervalMs);
        await sleep(waitMs, undefined, { signal: call.limit.signal }).catch(() => {});
        if (call.limit.hasEnded) throw endOf(call, `agent ${agentId} still runs ${method}`);
        const reply = await this.#poll(call, taskId);
        if (reply === undefined) continue;
        if ("exception" in reply && reply.exception.includes(unknownTaskText(taskId)))
          throw new UnavailableError(
            `agent ${agentId} was restarted while it ran ${method}: whether it was done is not known; try again`,
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

  /** Undefined when the reply was lost: asking again is harmless, so only the call's own end stops it. */
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
      .catch((error: unknown) => this.#log.debug({ agentId, error }, "cannot cancel the agent's task"))
      .finally(() => limit.release());
  }

  async #request(call: Call, method: string, args: readonly unknown[]): Promise<AgentReply> {
    const { agentId } = call;
    const { directorId, maxPendingRequests = MAX_PENDING_REQUESTS, nats } = this.#options;
    if (this.#isClosed)
      throw new CancelledError(`agent ${agentId} was to be asked for ${method}: the client was closed`);
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
      throw new ResourceExhaustedError(`${maxPendingRequests} requests to agents wait already (maxPendingRequests)`);
    if (call.limit.hasEnded) throw endOf(call, `agent ${agentId} was to be asked for ${method}`);
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
            this.#log.debug({ agentId, method, arguments: redactedArguments(method, args) }, "asked an agent");
          })
          .catch(reject);
      });
    } catch (error) {
      if (!limit.hasEnded) throw error;
      if (call.limit.hasEnded && !call.limit.isTimeUp) throw endOf(call, `agent ${agentId} was asked for ${method}`);
      throw isSent ? noReply(agentId, method) : notSent(agentId, method);
    } finally {
      limit.release();
      this.#pending.delete(requestId);
    }
  }

  #onReply(message: Message): void {
    const address = parseReplySubject(message.subject);
    // Permissions let an agent reply under its own id only, so the subject proves who replied.
    if (!address) return;
    // However late: that nobody waits for it any more says nothing of the agent.
    if (!message.isNoResponder) for (const listener of this.#heardListeners) listener(address.agentId);
    const request = this.#pending.get(address.requestId);
    if (request?.agentId !== address.agentId) return;
    request.settle(message.isNoResponder ? notThere(address.agentId) : readReply(address.agentId, message.data));
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
  /** Of the whole call; aborts too when the caller gives up. */
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
    ? new TimeoutError(`${situation}, and the time for it is over`, details)
    : new CancelledError(`${situation}, and the caller gave up`, details);
}

function noReply(agentId: string, method: string): Error {
  return new UnavailableError(
    `agent ${agentId} did not reply to ${method} in time: whether it was done is not known; see that the agent runs`,
    { outcome: "unknown", about: { agent_id: agentId } },
  );
}

function notSent(agentId: string, method: string): Error {
  return new UnavailableError(
    `${method} was not sent to agent ${agentId}: NATS was not connected in time; see that nats-server runs`,
    { outcome: "not_done", about: { agent_id: agentId } },
  );
}

/** NATS itself says at once that nobody listens: the request reached no one. */
function notThere(agentId: string): Error {
  return new UnavailableError(`agent ${agentId} is not connected to NATS: see that it runs`, {
    outcome: "not_done",
    about: { agent_id: agentId },
  });
}

function readReply(agentId: string, data: Uint8Array): AgentReply | Error {
  try {
    return decodeReply(data);
  } catch (error) {
    return new UnavailableError(`agent ${agentId} replied in a form that cannot be read: ${messageOf(error)}`, {
      outcome: "unknown",
      about: { agent_id: agentId },
    });
  }
}

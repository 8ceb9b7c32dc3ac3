import {
  InvalidArgumentError,
  type Logger,
  messageOf,
  parseId,
  quoted,
  ResourceExhaustedError,
} from "@diskmesh/domain";
import { type AgentTaskLimits, AgentTasks } from "./agent-tasks.js";
import type { NatsConnection, Subscription } from "./connection.js";
import { type AgentReply, type AgentRequest, decodeRequest, encodeReply, MAX_PAYLOAD_BYTES } from "./envelope.js";
import { redactedArguments, redactorOf } from "./redaction.js";
import { isRunningTask, unknownMethodText } from "./running-task.js";
import { agentSubject, heartbeatSubject, parseReplySubject, quotedSubject } from "./subjects.js";
import { inSpan } from "./tracing.js";

/** Maximum length of a request's first argument in a log line. */
const MAX_THING_LENGTH = 200;

/** A method of the agent protocol: how it is called and what it runs. */
export interface AgentMethod {
  /**
   * A sync method is answered when done. An async method is answered at once with a task, which is polled; tasks run
   * one at a time.
   */
  readonly mode: "sync" | "async";
  /** Requests with fewer arguments are refused; the method itself checks further ones. */
  readonly minArguments: number;
  /** Set for methods that may change something. Each request of such a method is logged. */
  readonly changes?: true;
  /** Errors become the text of the reply's exception. The signal aborts on cancel_task and when the agent stops. */
  run(args: readonly unknown[], signal: AbortSignal): Promise<unknown>;
}

export interface AgentServerOptions {
  readonly nats: NatsConnection;
  readonly agentId: string;
  /** Methods by name. ping, get_task and cancel_task are built in. */
  readonly methods: Readonly<Record<string, AgentMethod>>;
  readonly heartbeat: () => object;
  readonly heartbeatIntervalMs: number;
  readonly log: Logger;
  readonly limits?: Partial<AgentServerLimits>;
}

export interface AgentServerLimits extends AgentTaskLimits {
  /** Maximum number of sync requests that run at the same time. */
  readonly maxRunningRequests: number;
  /**
   * Maximum encoded size of all running and waiting requests together, sync and async. Must be at least the size of the
   * largest request.
   */
  readonly maxRunningRequestBytes: number;
  /** Longest time that a request may wait for its task to end; after it the task is polled. */
  readonly maxAnswerWithinMs: number;
}

const DEFAULT_AGENT_SERVER_LIMITS: AgentServerLimits = {
  maxRunningRequests: 64,
  maxRunningRequestBytes: 16 * MAX_PAYLOAD_BYTES,
  maxWaitingTasks: 5,
  maxKeptResults: 1_000,
  maxKeptResultBytes: 4 * MAX_PAYLOAD_BYTES,
  maxAnswerWithinMs: 1_000,
};

/** Agent side of mbus: answers requests to one id and sends its heartbeats until closed. */
export class AgentServer {
  readonly #options: AgentServerOptions;
  readonly #methods: ReadonlyMap<string, AgentMethod>;
  readonly #tasks: AgentTasks;
  readonly #subscription: Subscription;
  readonly #forgetListener: () => void;
  readonly #heartbeatTimer: NodeJS.Timeout;
  readonly #stopping = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #limits: AgentServerLimits;
  #runningSizeBytes = 0;

  constructor(options: AgentServerOptions) {
    this.#options = options;
    this.#limits = { ...DEFAULT_AGENT_SERVER_LIMITS, ...options.limits };
    this.#tasks = new AgentTasks(this.#limits);
    this.#methods = new Map([...Object.entries(options.methods), ...Object.entries(this.#builtInMethods())]);
    this.#subscription = options.nats.subscribe(agentSubject(options.agentId), ({ data }) => this.#onRequest(data));
    this.#forgetListener = options.nats.onConnected(() => this.#sendHeartbeat());
    if (options.nats.isConnected) this.#sendHeartbeat();
    this.#heartbeatTimer = setInterval(() => this.#sendHeartbeat(), options.heartbeatIntervalMs);
  }

  /** Refuses further requests, cancels running ones and waits until they have ended. Leaves the connection open. */
  async close(): Promise<void> {
    clearInterval(this.#heartbeatTimer);
    this.#forgetListener();
    this.#subscription.unsubscribe();
    this.#stopping.abort();
    await Promise.all([this.#tasks.close(), ...this.#running]);
  }

  #onRequest(data: Uint8Array): void {
    const { log } = this.#options;
    let request: AgentRequest;
    try {
      request = decodeRequest(data);
    } catch (error) {
      log.warn({ error: messageOf(error) }, "malformed NATS request dropped");
      return;
    }
    // Replies go only to a director and only under this agent's id, so a request cannot make this agent impersonate
    // another.
    if (parseReplySubject(request.replyTo)?.agentId !== this.#options.agentId) {
      log.warn({ replyTo: quotedSubject(request.replyTo) }, "NATS request with an invalid reply_to dropped");
      return;
    }
    log.debug(
      { method: request.method, arguments: redactedArguments(request.method, request.args) },
      "director request received",
    );
    const answered = this.#answer(request, data.length).finally(() => this.#running.delete(answered));
    this.#running.add(answered);
  }

  async #answer(request: AgentRequest, sizeBytes: number): Promise<void> {
    const { agentId, log, nats } = this.#options;
    const reply = await this.#replyTo(request, sizeBytes);
    if ("exception" in reply)
      log.info({ method: request.method, exception: quoted(reply.exception, 1_000) }, "director request failed");
    try {
      nats.publish(request.replyTo, encodeReply(reply));
    } catch (error) {
      log.warn({ agentId, method: request.method, error: messageOf(error) }, "reply to director dropped");
    }
  }

  async #replyTo(request: AgentRequest, sizeBytes: number): Promise<AgentReply> {
    const { method: name, args } = request;
    const method = this.#methods.get(name);
    if (!method) return { exception: unknownMethodText(name) };
    try {
      if (args.length < method.minArguments)
        throw new InvalidArgumentError(`Not enough arguments, expected ${method.minArguments}, got ${args.length}`);
      // Built-in methods skip the limits: they end at once and must work while other requests hang.
      const isBuiltIn = !Object.hasOwn(this.#options.methods, name);
      if (isBuiltIn) return { value: await this.#runInSpan(request, method, this.#stopping.signal) };
      return { value: await this.#start(request, method, sizeBytes) };
    } catch (error) {
      return { exception: `Action Failed ${name}: ${messageOf(error)}` };
    }
  }

  /**
   * Returns the result of a sync method, or the task of an async one. Throws ResourceExhaustedError when the limits are
   * reached.
   */
  async #start(request: AgentRequest, method: AgentMethod, sizeBytes: number): Promise<unknown> {
    const { maxRunningRequests, maxRunningRequestBytes } = this.#limits;
    if (this.#runningSizeBytes + sizeBytes > maxRunningRequestBytes)
      throw new ResourceExhaustedError(
        `a request of ${sizeBytes} bytes exceeds the limit of ${maxRunningRequestBytes} bytes of all running requests (maxRunningRequestBytes), of which ${this.#runningSizeBytes} are in use: try again later`,
      );
    if (method.mode === "sync" && this.#running.size >= maxRunningRequests)
      throw new ResourceExhaustedError(
        `${maxRunningRequests} requests already run, the limit (maxRunningRequests): try again later`,
      );
    const onEnd = (): void => {
      this.#runningSizeBytes -= sizeBytes;
    };
    const run = (signal: AbortSignal) => this.#runInSpan(request, method, signal);
    const started =
      method.mode === "async"
        ? this.#startTask(run, onEnd, Math.min(request.answerWithinMs, this.#limits.maxAnswerWithinMs))
        : run(this.#stopping.signal).finally(onEnd);
    this.#runningSizeBytes += sizeBytes;
    return started;
  }

  /** Starts a task. Returns the task, or its result when it ends within `withinMs`. */
  #startTask(run: (signal: AbortSignal) => Promise<unknown>, onEnd: () => void, withinMs: number): unknown {
    let hasEnded = (): void => {};
    const started = this.#tasks.start(run, () => {
      onEnd();
      hasEnded();
    });
    if (withinMs === 0) return started;
    return new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, withinMs);
      hasEnded = () => {
        clearTimeout(timer);
        resolve();
      };
    }).then(() => {
      const result = this.#tasks.get(started.agent_task_id);
      if (isRunningTask(result)) return result;
      if ("exception" in result) throw new Error(result.exception);
      return result.value;
    });
  }

  #runInSpan(request: AgentRequest, method: AgentMethod, signal: AbortSignal): Promise<unknown> {
    const { agentId } = this.#options;
    const { method: name, args, traceHeaders } = request;
    const span = { side: "server", method: name, agentId, traceHeaders } as const;
    const startedAtMs = performance.now();
    return inSpan(span, () => method.run(args, signal)).then(
      (value) => {
        if (method.changes) this.#logChange(request, startedAtMs, { status: "OK" });
        return redactorOf(name, args).value(value);
      },
      (error: unknown) => {
        const text = redactorOf(name, args).text(messageOf(error));
        if (method.changes) this.#logChange(request, startedAtMs, { status: "failed", error: quoted(text, 1_000) });
        throw new Error(text);
      },
    );
  }

  /**
   * Logs a changing request. Only the first argument is logged, because it names the object and others may contain
   * secrets.
   */
  #logChange({ method, args: [thing], replyTo }: AgentRequest, startedAtMs: number, outcome: object): void {
    const request = typeof thing === "string" ? { thing: thing.slice(0, MAX_THING_LENGTH) } : undefined;
    const caller = `director ${parseReplySubject(replyTo)?.directorId}`;
    const durationMs = Math.round((performance.now() - startedAtMs) * 10) / 10;
    const fields = { audit: "call", method: `mbus ${method}`, ...outcome, caller, durationMs, request };
    this.#options.log.info(fields, "director request finished");
  }

  #builtInMethods(): Record<string, AgentMethod> {
    return {
      ping: { mode: "sync", minArguments: 0, run: async () => "pong" },
      get_task: { mode: "sync", minArguments: 1, run: async ([id]) => this.#taskValue(taskId(id)) },
      cancel_task: {
        mode: "sync",
        minArguments: 1,
        changes: true,
        run: async ([id]) => {
          this.#tasks.cancel(taskId(id));
          return "canceled";
        },
      },
    };
  }

  #taskValue(id: string): unknown {
    const found = this.#tasks.get(id);
    if (isRunningTask(found)) return found;
    if ("value" in found) return found.value;
    throw new Error(`Task ${id} result: ${found.exception}`);
  }

  #sendHeartbeat(): void {
    const { agentId, heartbeat, log, nats } = this.#options;
    if (!nats.isConnected) return;
    try {
      nats.publish(heartbeatSubject(agentId), Buffer.from(JSON.stringify(heartbeat())));
    } catch (error) {
      log.warn({ error: messageOf(error) }, "NATS heartbeat dropped");
    }
  }
}

const taskId = (value: unknown): string => parseId("task id", String(value));

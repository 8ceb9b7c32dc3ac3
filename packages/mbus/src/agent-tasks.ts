import { randomUUID } from "node:crypto";
import { CancelledError, messageOf, NotFoundError, ResourceExhaustedError } from "@diskmesh/domain";
import { type AgentReply, decodeReply, encodeReply } from "./envelope.js";
import { type RunningTask, unknownTaskText } from "./running-task.js";

export interface AgentTaskLimits {
  /** Maximum number of tasks that wait behind the running task. */
  readonly maxWaitingTasks: number;
  /** Maximum number of results kept for get_task; the oldest are dropped first. */
  readonly maxKeptResults: number;
  /**
   * Maximum encoded size of all kept results together; the oldest are dropped first. Must be at least the size of the
   * largest reply.
   */
  readonly maxKeptResultBytes: number;
}

/** A waiting or running task. `run` references the request, which is freed with the task. */
interface Task {
  readonly id: string;
  readonly run: (signal: AbortSignal) => Promise<unknown>;
  readonly cancel: AbortController;
  readonly onEnd: () => void;
}

/** Queue of an agent's long requests: they run one at a time, in order, and their results are kept for get_task. */
export class AgentTasks {
  readonly #limits: AgentTaskLimits;
  /** Waiting and running tasks in order; the first one runs. */
  readonly #tasks = new Map<string, Task>();
  /** Encoded replies of ended tasks, oldest first. Encoded replies hold no references to other objects. */
  readonly #results = new Map<string, string>();
  #resultsSizeBytes = 0;
  #worker: Promise<void> | undefined;

  constructor(limits: AgentTaskLimits) {
    this.#limits = limits;
  }

  /** Queues a task. `onEnd` is called exactly once, also when the task never runs. */
  start(run: (signal: AbortSignal) => Promise<unknown>, onEnd: () => void = () => {}): RunningTask {
    const { maxWaitingTasks } = this.#limits;
    if (this.#tasks.size > maxWaitingTasks)
      throw new ResourceExhaustedError(
        `${maxWaitingTasks} tasks already wait, the limit (maxWaitingTasks): try again later`,
      );
    const task: Task = { id: randomUUID(), run, cancel: new AbortController(), onEnd };
    this.#tasks.set(task.id, task);
    this.#worker ??= this.#work();
    return running(task.id);
  }

  /** Returns the task while it waits or runs, then its result. Throws NotFoundError. */
  get(id: string): RunningTask | AgentReply {
    if (this.#tasks.has(id)) return running(id);
    const result = this.#results.get(id);
    if (result === undefined) throw new NotFoundError(unknownTaskText(id));
    return decodeReply(Buffer.from(result));
  }

  /** Cancels a task; does nothing when it has ended. Throws NotFoundError. */
  cancel(id: string): void {
    const task = this.#tasks.get(id);
    if (task !== undefined) task.cancel.abort(new CancelledError("the task was cancelled"));
    else if (!this.#results.has(id)) throw new NotFoundError(unknownTaskText(id));
  }

  /** Cancels all tasks and waits for the running one to end. */
  async close(): Promise<void> {
    for (const task of this.#tasks.values()) task.cancel.abort(new CancelledError("the agent stops"));
    await this.#worker;
  }

  async #work(): Promise<void> {
    for (const task of this.#tasks.values()) {
      const result = await resultOf(task);
      this.#tasks.delete(task.id);
      this.#keep(task.id, result);
      task.onEnd();
    }
    this.#worker = undefined;
  }

  #keep(id: string, result: string): void {
    const { maxKeptResults, maxKeptResultBytes } = this.#limits;
    this.#results.set(id, result);
    this.#resultsSizeBytes += Buffer.byteLength(result);
    for (const [oldest, kept] of this.#results) {
      if (this.#results.size <= maxKeptResults && this.#resultsSizeBytes <= maxKeptResultBytes) return;
      this.#results.delete(oldest);
      this.#resultsSizeBytes -= Buffer.byteLength(kept);
    }
  }
}

async function resultOf({ run, cancel: { signal } }: Task): Promise<string> {
  let reply: AgentReply;
  try {
    signal.throwIfAborted();
    reply = { value: await run(signal) };
  } catch (error) {
    reply = { exception: messageOf(error) };
  }
  return Buffer.from(encodeReply(reply)).toString();
}

function running(id: string): RunningTask {
  return { agent_task_id: id, state: "running" };
}

import { randomUUID } from "node:crypto";
import { CancelledError, messageOf, NotFoundError, ResourceExhaustedError } from "@diskmesh/domain";
import type { AgentReply } from "./envelope.js";
import { type RunningTask, unknownTaskText } from "./running-task.js";

export interface AgentTaskLimits {
  /** Most tasks that wait for the one that runs. */
  readonly maxQueuedTasks: number;
  /** Most results that are kept for get_task; the oldest go first. */
  readonly maxKeptResults: number;
}

interface Task {
  readonly id: string;
  readonly run: (signal: AbortSignal) => Promise<unknown>;
  readonly cancel: AbortController;
  result?: AgentReply;
}

/** The long requests of an agent: run one at a time, in order, with their results kept until asked for. */
export class AgentTasks {
  readonly #limits: AgentTaskLimits;
  readonly #tasks = new Map<string, Task>();
  readonly #waiting: Task[] = [];
  #worker: Promise<void> | undefined;

  constructor(limits: AgentTaskLimits) {
    this.#limits = limits;
  }

  start(run: (signal: AbortSignal) => Promise<unknown>): RunningTask {
    const { maxQueuedTasks } = this.#limits;
    if (this.#waiting.length >= maxQueuedTasks)
      throw new ResourceExhaustedError(`${maxQueuedTasks} tasks wait already (maxQueuedTasks): try again later`);
    const task: Task = { id: randomUUID(), run, cancel: new AbortController() };
    this.#tasks.set(task.id, task);
    this.#waiting.push(task);
    this.#worker ??= this.#work();
    return running(task);
  }

  /** The task while it waits or runs, then its result. Throws NotFoundError. */
  get(id: string): RunningTask | AgentReply {
    const task = this.#find(id);
    return task.result ?? running(task);
  }

  /** Asks a task to stop. Throws NotFoundError. */
  cancel(id: string): void {
    this.#find(id).cancel.abort(new CancelledError("the task was cancelled"));
  }

  /** Cancels everything and waits until nothing runs. */
  async close(): Promise<void> {
    for (const task of this.#tasks.values()) task.cancel.abort(new CancelledError("the agent stops"));
    await this.#worker;
  }

  #find(id: string): Task {
    const task = this.#tasks.get(id);
    if (!task) throw new NotFoundError(unknownTaskText(id));
    return task;
  }

  async #work(): Promise<void> {
    for (let task = this.#waiting.shift(); task; task = this.#waiting.shift()) {
      task.result = await resultOf(task);
      this.#forgetOldest();
    }
    this.#worker = undefined;
  }

  #forgetOldest(): void {
    let surplus = this.#tasks.size - this.#waiting.length - this.#limits.maxKeptResults;
    for (const task of this.#tasks.values()) {
      if (surplus-- <= 0) return;
      this.#tasks.delete(task.id);
    }
  }
}

async function resultOf(task: Task): Promise<AgentReply> {
  const { signal } = task.cancel;
  try {
    signal.throwIfAborted();
    return { value: await task.run(signal) };
  } catch (error) {
    return { exception: messageOf(error) };
  }
}

function running(task: Task): RunningTask {
  return { agent_task_id: task.id, state: "running" };
}

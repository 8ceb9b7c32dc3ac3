import { randomUUID } from "node:crypto";
import { CancelledError, messageOf, NotFoundError, ResourceExhaustedError } from "@diskmesh/domain";
import { type AgentReply, decodeReply, encodeReply } from "./envelope.js";
import { type RunningTask, unknownTaskText } from "./running-task.js";

export interface AgentTaskLimits {
  /** Most tasks that wait for the one that runs. */
  readonly maxWaitingTasks: number;
  /** Most results that are kept for get_task; the oldest go first. */
  readonly maxKeptResults: number;
  /** What all kept results may take, as they travel; the oldest go first. At least the largest reply. */
  readonly maxKeptResultBytes: number;
}

/** A task that waits or runs. Its request is in `run`, and goes with it. */
interface Task {
  readonly id: string;
  readonly run: (signal: AbortSignal) => Promise<unknown>;
  readonly cancel: AbortController;
  readonly onEnd: () => void;
}

/** The long requests of an agent: run one at a time, in order, with their results kept until asked for. */
export class AgentTasks {
  readonly #limits: AgentTaskLimits;
  /** Those that have not ended, the one that runs first. */
  readonly #tasks = new Map<string, Task>();
  /** Of ended tasks, the oldest first: the encoded replies, which hold on to nothing else. */
  readonly #results = new Map<string, string>();
  #resultsSizeBytes = 0;
  #worker: Promise<void> | undefined;

  constructor(limits: AgentTaskLimits) {
    this.#limits = limits;
  }

  /** `onEnd` is called once, whether it ever ran or not. */
  start(run: (signal: AbortSignal) => Promise<unknown>, onEnd: () => void = () => {}): RunningTask {
    const { maxWaitingTasks } = this.#limits;
    if (this.#tasks.size > maxWaitingTasks)
      throw new ResourceExhaustedError(`${maxWaitingTasks} tasks wait already (maxWaitingTasks): try again later`);
    const task: Task = { id: randomUUID(), run, cancel: new AbortController(), onEnd };
    this.#tasks.set(task.id, task);
    this.#worker ??= this.#work();
    return running(task.id);
  }

  /** The task while it waits or runs, then its result. Throws NotFoundError. */
  get(id: string): RunningTask | AgentReply {
    if (this.#tasks.has(id)) return running(id);
    const result = this.#results.get(id);
    if (result === undefined) throw new NotFoundError(unknownTaskText(id));
    return decodeReply(Buffer.from(result));
  }

  /** Asks a task to stop; one that has ended has. Throws NotFoundError. */
  cancel(id: string): void {
    const task = this.#tasks.get(id);
    if (task !== undefined) task.cancel.abort(new CancelledError("the task was cancelled"));
    else if (!this.#results.has(id)) throw new NotFoundError(unknownTaskText(id));
  }

  /** Cancels everything and waits until nothing runs. */
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

import { messageOf } from "@diskmesh/domain";
import type { Logger } from "@diskmesh/service";
import type { EventLog } from "@diskmesh/tablet";
import { decodeEvent, encodeEvent, type TaskEvent } from "../model/task-event.js";
import type { TaskChanges } from "./task-changes.js";

export interface TaskLogOptions {
  readonly eventLog: EventLog;
  readonly changes: TaskChanges;
  readonly eventsPerTask: number;
  readonly log: Logger;
}

interface Writer {
  readonly pending: string[];
  /** In this process; a log that a former one had begun goes on behind what is there. */
  written: number;
  writing: Promise<void> | undefined;
}

/** Lines that wait for the storage; beyond it a task that talks too fast loses lines, not the director its memory. */
const MAX_PENDING_LINES = 1_000;

const LAST_MESSAGE = "this task has reached its limit of events (tasks.eventsPerTask): what follows is not kept";

/** The event logs of tasks. Writing does not delay the work: what is under way is waited for at its end. */
export class TaskLog {
  readonly #options: TaskLogOptions;
  readonly #writers = new Map<number, Writer>();

  constructor(options: TaskLogOptions) {
    this.#options = options;
  }

  append(taskId: number, event: TaskEvent): void {
    const writer = this.#writers.get(taskId) ?? { pending: [], written: 0, writing: undefined };
    this.#writers.set(taskId, writer);
    const { eventsPerTask } = this.#options;
    if (writer.written >= eventsPerTask || writer.pending.length >= MAX_PENDING_LINES) return;
    writer.written++;
    writer.pending.push(encodeEvent(writer.written === eventsPerTask ? { ...event, message: LAST_MESSAGE } : event));
    writer.writing ??= this.#write(taskId, writer);
  }

  /** Resolves when everything appended so far is durable, or could not be made so, which is logged. */
  async flush(taskId: number): Promise<void> {
    await this.#writers.get(taskId)?.writing;
  }

  /** The task has ended: nothing more is appended. */
  forget(taskId: number): void {
    this.#writers.delete(taskId);
  }

  async read(taskId: number, from: number, limit: number): Promise<TaskEvent[]> {
    const { lines } = await this.#options.eventLog.read(streamOf(taskId), { from, limit });
    return lines.map(decodeEvent);
  }

  /** Deletes a task's events. */
  drop(taskId: number): Promise<void> {
    return this.#options.eventLog.drop(streamOf(taskId));
  }

  async #write(taskId: number, writer: Writer): Promise<void> {
    // One turn later, so that what is appended together is written together.
    await Promise.resolve();
    while (writer.pending.length > 0) {
      try {
        await this.#options.eventLog.append(streamOf(taskId), writer.pending.splice(0));
      } catch (error) {
        this.#options.log.error({ taskId, reason: messageOf(error) }, "cannot write a task's events");
      }
      this.#options.changes.touch(taskId);
    }
    writer.writing = undefined;
  }
}

function streamOf(taskId: number): string {
  return `task-${taskId}`;
}

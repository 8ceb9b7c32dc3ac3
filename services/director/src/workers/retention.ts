import { type Logger, messageOf } from "@diskmesh/domain";
import { taskKey } from "../model/schema.js";
import { hasEnded, type Task } from "../model/task.js";
import type { DirectorTablet } from "../stored-schema.js";
import type { TaskLog } from "./task-log.js";

export interface RetentionOptions {
  readonly tablet: DirectorTablet;
  readonly taskLog: TaskLog;
  readonly retentionCount: number;
  readonly retainedOutputSizeBytes: number;
  readonly log: Logger;
}

/** Forgets the oldest ended tasks and their outputs. */
export class Retention {
  readonly #options: RetentionOptions;
  readonly #slack: number;
  readonly #unwatch: () => void;
  /** Of the outputs of ended tasks; undefined before they were first counted. */
  #sizeBytes: number | undefined;
  #sweeping: Promise<void> | undefined;
  #closed = false;

  constructor(options: RetentionOptions) {
    this.#options = options;
    // Finding the oldest means passing all others, so it is done for many at a time.
    this.#slack = Math.ceil(options.retentionCount / 10);
    this.#unwatch = options.tablet.watch((changes) => {
      const tasks = changes.filter((change) => change.table === "tasks");
      for (const { document } of tasks) this.#count(document as Task | null);
      if (tasks.length > 0) this.#sweepIfNeeded();
    });
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#unwatch();
    await this.#sweeping;
  }

  #sweepIfNeeded(): void {
    if (this.#closed) return;
    this.#sweeping ??= this.#sweep()
      .catch((error: unknown) => this.#options.log.warn({ error: messageOf(error) }, "cannot forget old tasks"))
      .finally(() => {
        this.#sweeping = undefined;
      });
  }

  #count(task: Task | null): void {
    if (task !== null && hasEnded(task) && this.#sizeBytes !== undefined) this.#sizeBytes += task.outputSizeBytes ?? 0;
  }

  async #sweep(): Promise<void> {
    const { tablet, taskLog, retentionCount, retainedOutputSizeBytes } = this.#options;
    const surplus = await tablet.read((tables): Task[] => {
      const isOverCount = tables.tasks.count("byEnd", "ended") >= retentionCount + this.#slack;
      const isOverSize = this.#sizeBytes === undefined || this.#sizeBytes > retainedOutputSizeBytes;
      if (!isOverCount && !isOverSize) return [];
      const { kept, sizeBytes } = newest(tables.tasks.by("byEnd", "ended"), this.#options);
      this.#sizeBytes = sizeBytes;
      return [...tables.tasks.by("byEnd", "ended")].slice(kept);
    });
    for (const { taskId } of surplus) {
      if (this.#closed) return;
      // Events first: a task without events is swept again, events without a task would stay for ever.
      await taskLog.drop(taskId);
      await tablet.transact((tx) => tx.tasks.delete(taskKey(taskId)));
    }
  }
}

/** How many of the tasks, which come newest first, are within both limits, and the size of their outputs. */
function newest(
  tasks: Iterable<Task>,
  { retentionCount, retainedOutputSizeBytes }: Pick<RetentionOptions, "retentionCount" | "retainedOutputSizeBytes">,
): { kept: number; sizeBytes: number } {
  let kept = 0;
  let sizeBytes = 0;
  for (const { outputSizeBytes = 0 } of tasks) {
    // The newest stays whatever it takes.
    if (kept === retentionCount || (kept > 0 && sizeBytes + outputSizeBytes > retainedOutputSizeBytes)) break;
    kept++;
    sizeBytes += outputSizeBytes;
  }
  return { kept, sizeBytes };
}

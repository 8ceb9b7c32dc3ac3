import { messageOf } from "@diskmesh/domain";
import type { Logger } from "@diskmesh/service";
import type { Task } from "../model/task.js";
import { type DirectorTablet, taskKey } from "../schema.js";
import type { TaskLog } from "./task-log.js";

export interface RetentionOptions {
  readonly tablet: DirectorTablet;
  readonly taskLog: TaskLog;
  readonly retentionCount: number;
  readonly log: Logger;
}

/** Forgets the oldest ended tasks and their events. */
export class Retention {
  readonly #options: RetentionOptions;
  readonly #slack: number;
  readonly #unwatch: () => void;
  #sweeping: Promise<void> | undefined;
  #closed = false;

  constructor(options: RetentionOptions) {
    this.#options = options;
    // Finding the oldest means passing all others, so it is done for many at a time.
    this.#slack = Math.ceil(options.retentionCount / 10);
    this.#unwatch = options.tablet.watch((changes) => {
      if (changes.some((change) => change.table === "tasks")) this.#sweepIfNeeded();
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
      .catch((error: unknown) => this.#options.log.warn({ reason: messageOf(error) }, "cannot forget old tasks"))
      .finally(() => {
        this.#sweeping = undefined;
      });
  }

  async #sweep(): Promise<void> {
    const { tablet, taskLog, retentionCount } = this.#options;
    const surplus = await tablet.read((tables): Task[] => {
      if (tables.tasks.count("byEnd", "ended") < retentionCount + this.#slack) return [];
      // Newest first.
      return [...tables.tasks.by("byEnd", "ended")].slice(retentionCount);
    });
    for (const { taskId } of surplus) {
      if (this.#closed) return;
      // Events first: a task without events is swept again, events without a task would stay for ever.
      await taskLog.drop(taskId);
      await tablet.transact((tx) => tx.tasks.delete(taskKey(taskId)));
    }
  }
}

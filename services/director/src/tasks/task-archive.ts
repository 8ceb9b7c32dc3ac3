import { backoffMs, type Logger, messageOf } from "@diskmesh/domain";
import { type Clock, Watch } from "@diskmesh/service";
import { taskKey } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded, type Task } from "../store/task.js";
import type { EndedTasks } from "./ended-tasks.js";
import type { TaskLog } from "./task-log.js";

export interface TaskArchiveOptions {
  readonly tablet: DirectorTablet;
  readonly endedTasks: EndedTasks;
  readonly taskLog: Pick<TaskLog, "drop">;
  readonly maxKeptTasks: number;
  readonly maxKeptOutputBytes: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Maximum tasks moved or deleted in a batch. */
const BATCH = 100;
/** Ended tasks gather for this time before they are moved in a batch. */
const GATHER_MS = 100;
const BACKOFF = { minDelayMs: 100, maxDelayMs: 10_000 };

/**
 * Moves ended tasks from the tablet, which holds current state only, into the log. Deletes the oldest ended tasks with
 * their outputs when the log exceeds its limits. A task leaves the tablet only after it can be found in the log, so an
 * interrupted move is repeated.
 */
export class TaskArchive {
  readonly #options: TaskArchiveOptions;
  /**
   * Number of tasks above the limit at which a cleanup begins. A cleanup pays off only for many tasks, because finding
   * the oldest tasks is expensive.
   */
  readonly #slack: number;
  readonly #changed = new Watch();
  readonly #closing = new AbortController();
  readonly #unwatch: () => void;
  readonly #running: Promise<void>;
  #count = 0;
  #sizeBytes = 0;

  constructor(options: TaskArchiveOptions) {
    this.#options = options;
    this.#slack = Math.ceil(options.maxKeptTasks / 10);
    this.#unwatch = options.tablet.watch((changes) => {
      const ended = changes.some(({ table, document }) => table === "tasks" && document && hasEnded(document as Task));
      if (ended) this.#changed.touch();
    });
    this.#running = this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#unwatch();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#closing;
    let isCounted = false;
    for (let failures = 0; !signal.aborted; ) {
      try {
        if (!isCounted) await this.#countAll();
        isCounted = true;
        while (!signal.aborted && (await this.#moveSome()));
        await this.#forgetSurplus();
        failures = 0;
        await this.#changed.changed(signal);
        await clock.sleep(GATHER_MS, signal);
      } catch (error) {
        if (signal.aborted) return;
        log.warn({ error: messageOf(error), failures }, "task archiving failed, retrying");
        await clock.sleep(backoffMs(failures++, BACKOFF), signal).catch(() => {});
      }
    }
  }

  async #countAll(): Promise<void> {
    const { endedTasks } = this.#options;
    let half = await endedTasks.halfDropped(BATCH);
    for (; half.length > 0; half = await endedTasks.halfDropped(BATCH)) await this.#drop(half);
    this.#count = 0;
    this.#sizeBytes = 0;
    const everything = { states: new Set<never>(), deployment: undefined };
    for (let after = ""; !this.#closing.signal.aborted; ) {
      const page = await endedTasks.page(everything, { after, limit: BATCH });
      for (const task of page) this.#note(task, 1);
      const last = page.at(-1);
      if (last === undefined) return;
      after = taskKey(last.taskId);
    }
  }

  /** Returns true when more tasks may be left to move. */
  async #moveSome(): Promise<boolean> {
    const { tablet, endedTasks } = this.#options;
    const ended = await tablet.read((tables) => [...tables.tasks.by("byEnd", "ended", { limit: BATCH })]);
    if (ended.length === 0) return false;
    const { added, replaced } = await endedTasks.add(ended);
    for (const task of added) this.#note(task, 1);
    for (const task of replaced) this.#note(task, -1);
    await tablet.transact((tx) => {
      for (const { taskId } of ended) tx.tasks.delete(taskKey(taskId));
    });
    return true;
  }

  async #forgetSurplus(): Promise<void> {
    const { endedTasks, maxKeptTasks, maxKeptOutputBytes } = this.#options;
    const isOver = (): boolean => this.#sizeBytes > maxKeptOutputBytes && this.#count > 1;
    let tooMany = this.#count >= maxKeptTasks + this.#slack ? this.#count - maxKeptTasks : 0;
    while (!this.#closing.signal.aborted && (tooMany > 0 || isOver())) {
      const surplus: Task[] = [];
      for (const task of await endedTasks.oldest(BATCH)) {
        // The newest task stays whatever its size.
        if (tooMany <= 0 && !isOver()) break;
        tooMany--;
        this.#note(task, -1);
        surplus.push(task);
      }
      if (surplus.length === 0) return;
      await this.#drop(surplus);
    }
  }

  #drop(tasks: readonly Task[]): Promise<void> {
    return this.#options.endedTasks.drop(tasks, (taskId) => this.#options.taskLog.drop(taskId));
  }

  #note({ outputSizeBytes = 0 }: Task, by: 1 | -1): void {
    this.#count += by;
    this.#sizeBytes += by * outputSizeBytes;
  }
}

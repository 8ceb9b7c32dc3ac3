import { type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { GivenUpWait, LockKeeper } from "../locks/lock-keeper.js";
import { type HeldLock, ownerText } from "../locks/locks.js";
import { type DirectorTables, taskKey } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded, type Job, type Stop, type Task, type TaskQueue } from "../store/task.js";
import { end } from "./task.js";
import { stopTask } from "./tasks.js";

export interface TaskTimesOptions {
  readonly tablet: DirectorTablet;
  readonly locks: LockKeeper;
  readonly clock: Clock;
  readonly log: Logger;
  readonly timeoutsMs: Readonly<Record<TaskQueue, number>>;
  readonly checkIntervalMs: number;
  /** Time after which a background task gives up a lock for which somebody else waits. */
  readonly yieldAfterMs: number;
}

/**
 * Tasks that the director starts by itself and starts again when they end early. One of them that holds a lock for long
 * waits for an agent in vain.
 */
const BACKGROUND: ReadonlySet<string | undefined> = new Set<Job["type"]>([
  "renew_agent_certificates",
  "settle_owed_removals",
  "tell_agents",
]);

/**
 * Stops tasks that exceed a lock deadline or their maximum run time, and background tasks in the way of others. Fails tasks that exceed the wait time for a lock.
 */
export class TaskTimes {
  readonly #options: TaskTimesOptions;
  readonly #begun = new Map<number, { readonly atMs: number; readonly queue: TaskQueue }>();
  readonly #closing = new AbortController();
  #loop: Promise<void> | undefined;

  constructor(options: TaskTimesOptions) {
    this.#options = options;
  }

  start(): void {
    this.#loop ??= this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#loop;
  }

  /** Starts the task's run timer when a worker takes the task for the first time. */
  begin(task: Task): void {
    if (this.#begun.has(task.taskId)) return;
    this.#begun.set(task.taskId, { atMs: this.#options.clock.monotonicMs(), queue: task.queue });
  }

  forget(taskId: number): void {
    this.#begun.delete(taskId);
  }

  async #run(): Promise<void> {
    const { clock, checkIntervalMs, log } = this.#options;
    while (!this.#closing.signal.aborted) {
      await clock.sleep(checkIntervalMs, this.#closing.signal).catch(() => {});
      if (this.#closing.signal.aborted) return;
      try {
        await this.#check();
      } catch (error) {
        log.warn({ error: messageOf(error) }, "task timeout check failed, retrying");
      }
    }
  }

  async #check(): Promise<void> {
    const { locks, clock, timeoutsMs } = this.#options;
    for (const lock of locks.overdue()) await this.#stop(lock.taskId, { as: "timeout", why: overdueText(lock) });
    await this.#yield();
    for (const [taskId, { atMs, queue }] of this.#begun) {
      const limitMs = timeoutsMs[queue];
      if (clock.monotonicMs() - atMs < limitMs) continue;
      await this.#stop(taskId, { as: "timeout", why: `it took longer than ${limitMs} ms` });
    }
    for (const given of locks.givenUp()) {
      if (given.endLane === undefined) await this.#fail(given);
      else given.endLane(new UnavailableError(await this.#options.tablet.read((tables) => lateText(given, tables))));
    }
  }

  /** Stops background tasks that hold locks for long while other tasks or calls wait for them. */
  async #yield(): Promise<void> {
    const { locks, clock, tablet, yieldAfterMs } = this.#options;
    const nowMs = clock.nowMs();
    const held = locks.list().filter((lock) => lock.waitingTaskIds.length > 0 && nowMs - lock.sinceMs >= yieldAfterMs);
    if (held.length === 0) return;
    const inTheWay = await tablet.read((tables) => {
      const isBackground = (taskId: number) => BACKGROUND.has(tables.tasks.get(taskKey(taskId))?.job?.type);
      return held.filter(
        ({ taskId, waitingTaskIds }) => isBackground(taskId) && waitingTaskIds.some((each) => !isBackground(each)),
      );
    });
    for (const { taskId, type, resource } of inTheWay)
      await this.#stop(taskId, { as: "timeout", why: `others wait for its lock of ${type} \`${resource}\`` });
  }

  async #stop(taskId: number, stop: Stop): Promise<void> {
    await this.#options.tablet.transact((tx) => {
      const task = tx.tasks.get(taskKey(taskId));
      if (task === undefined || hasEnded(task) || task.state === "cancelling") return;
      stopTask(tx, task, stop, this.#options.clock.nowMs());
    });
  }

  /** Fails the task only while it is queued, because it may have been granted the lock and run already. */
  async #fail(given: GivenUpWait): Promise<void> {
    await this.#options.tablet.transact((tx) => {
      const task = tx.tasks.get(taskKey(given.taskId));
      if (task?.state !== "queued") return;
      tx.tasks.put(end(task, { event: "fail", result: lateText(given, tx) }, this.#options.clock.nowMs()));
    });
  }
}

/** A task with a scope is not told about the holder's task, which may be outside of the scope. */
function lateText({ taskId, lock, owner }: GivenUpWait, { tasks }: DirectorTables): string {
  const { job = null } = tasks.get(taskKey(taskId)) ?? {};
  const isScoped = job !== null && "scope" in job;
  const holder = ownerText(owner, isScoped ? undefined : tasks.get(taskKey(owner.taskId))?.description);
  return `could not get the lock of ${lock.type} \`${lock.resource}\` in time: ${holder} holds it; try again later`;
}

function overdueText(lock: HeldLock): string {
  return `it held the lock of ${lock.type} \`${lock.resource}\` past its deadline`;
}

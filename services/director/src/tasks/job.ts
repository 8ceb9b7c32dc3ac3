import type { LockName } from "../locks/locks.js";
import type { DirectorTables, DirectorTransaction } from "../store/schema.js";
import type { Job, JobOf, JobType } from "../store/task.js";
import type { TaskRun } from "./task-run.js";

/** A task is through, all but what it records last. */
export interface Through {
  readonly result: string;
  /** The task's output of type result, where BOSH's clients read something else there. */
  readonly output?: string;
  /** Runs in the transaction that ends the task. */
  readonly record: (tx: DirectorTransaction) => void;
}

/** The next thing to do for a task, and the locks under which. */
export interface Step {
  /** In the order of locks. */
  readonly locks: readonly LockName[];
  /** All CPIs that the task may have to ask, as far as is known now, by their present names: see WorkerShares. */
  readonly cpis: readonly string[];
  /**
   * Its run waits for a transaction or a read of the tablet before it does anything: it may begin while the task's own
   * record is being written, so that both share a commit.
   */
  readonly recordsFirst?: true;
  /** Returns the task's result when it is through, nothing when there is more to do. Throws to fail the task. */
  run(run: TaskRun): Promise<string | Through | undefined>;
}

/**
 * Says what comes next from what is recorded, so that it never matters who did the steps before, or how far the last
 * one got. It is asked before the locks are taken and again once they are held; only then its step is run. Throws
 * when the task cannot be done.
 */
export type Planner<Type extends JobType, Context> = (
  context: Context,
  job: JobOf<Type>,
  tables: DirectorTables,
  taskId: number,
) => Step;
/** Plans the next step of any job. */
export type Plan = (job: Job, tables: DirectorTables, taskId: number) => Step;

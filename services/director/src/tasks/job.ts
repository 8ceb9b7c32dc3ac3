import type { LockName } from "../locks/locks.js";
import type { DirectorTables, DirectorTransaction } from "../store/schema.js";
import type { Job, JobOf, JobType } from "../store/task.js";
import type { TaskRun } from "./task-run.js";

/** The outcome of a task that has finished all work but the recording of its end. */
export interface Through {
  readonly result: string;
  /** The task's output of type `result`, for tasks whose BOSH output differs from `result`. */
  readonly output?: string;
  /** Runs in the transaction that ends the task. */
  readonly record: (tx: DirectorTransaction) => void;
}

/** The next unit of a task's work, with the locks that the work needs. */
export interface Step {
  /** Sorted in the lock order. */
  readonly locks: readonly LockName[];
  /**
   * The present names of all CPIs that the task may call, as far as known now. WorkerQuotas groups tasks by these
   * names.
   */
  readonly cpis: readonly string[];
  /**
   * Set when `run` awaits a transaction or read of the tablet before any other effect. The step may then begin while
   * the task's own record is being written, so that both share a commit.
   */
  readonly recordsFirst?: true;
  /** Returns the task's result when the task is done, undefined when more steps follow. Throws to fail the task. */
  run(run: TaskRun): Promise<string | Through | undefined>;
}

/**
 * Plans the next step from recorded state alone, so that any director can continue a task after a crash. The runner
 * runs a plan only if the task gets the plan's locks without waiting. A task that had to wait is planned again, because
 * the tables may have changed. Throws when the task cannot be done.
 */
export type Planner<Type extends JobType, Context> = (
  context: Context,
  job: JobOf<Type>,
  tables: DirectorTables,
  taskId: number,
) => Step;
export type Plan = (job: Job, tables: DirectorTables, taskId: number) => Step;

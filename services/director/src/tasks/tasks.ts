import { FencedError, InvalidStateError, NotFoundError, UnavailableError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Changes, Clock } from "@diskmesh/service";
import { type Asking, authenticationOf, userOf } from "../audit/asker.js";
import { type DirectorTables, type DirectorTransaction, nextNumber, taskKey } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded, type Job, type Stop, type Task, type TaskQueue } from "../store/task.js";
import type { EndedTasks } from "./ended-tasks.js";
import { refuseWhenFull } from "./queue-quota.js";
import { newTask, requestStop, resume } from "./task.js";
import { activeTraceParent } from "./task-span.js";
import { cpiSetName } from "./worker-quotas.js";

/** Maximum delay of Node's timers; Node replaces a larger delay by 1 ms. */
const MAX_TIMER_MS = 2_147_483_647;

export interface TasksOptions {
  readonly tablet: DirectorTablet;
  readonly endedTasks: Pick<EndedTasks, "get">;
  readonly changes: Changes<number>;
  readonly clock: Clock;
  /** Maximum live tasks in each queue. */
  readonly queueLengths: Readonly<Record<TaskQueue, number>>;
  /** Returns the CPIs that the job may call according to the recorded state. */
  readonly cpisOf: (job: Job, tables: DirectorTables) => readonly string[];
  /**
   * Called in the turn in which a task is recorded, before the record is durable, so that follow-up records share the
   * commit.
   */
  readonly onRecorded: (task: Task) => void;
  readonly answerMarginMs: number;
}

export interface WantedTask {
  readonly job: Job;
  readonly queue: TaskQueue;
  readonly description: string;
  /** The task's deployment as far as known; empty for none. */
  readonly deployment: string | ((tables: DirectorTables) => string);
  /** Checks the request against the current state; throws to refuse it. */
  readonly check?: (tables: DirectorTables) => void;
  /**
   * Returns true for a live task that is equivalent; the caller gets that task instead of a new task. Absent means that
   * every request starts a new task.
   */
  readonly joins?: (task: Task) => boolean;
  /** Called with the task's number before the task can run, within the transaction that records the task. */
  readonly onNumbered?: (taskId: number, tx: DirectorTransaction) => void;
  /** Called with the number of a task that could not be recorded, so this process never runs the task. */
  readonly onNotRecorded?: (taskId: number) => void;
}

/** The deadline and the cancellation of a waiting call. */
type Waiting = Pick<CallContext, "deadlineAtMs" | "signal">;

type NoteOfTask = (tx: DirectorTransaction, task: Task) => void;

/** Records and reads tasks for handlers. The runner watches the same records and acts on them. */
export class Tasks {
  readonly #options: TasksOptions;

  constructor(options: TasksOptions) {
    this.#options = options;
  }

  /** Records a task. The task is durable once this resolves, so it runs even if the process dies. */
  async start(call: Asking & Pick<CallContext, "contextId">, wanted: WantedTask): Promise<Task> {
    let numbered: number | undefined;
    const onNumbered = (taskId: number, tx: DirectorTransaction): void => {
      numbered = taskId;
      wanted.onNumbered?.(taskId, tx);
    };
    try {
      return await this.#record(call, { ...wanted, onNumbered });
    } catch (error) {
      if (numbered !== undefined) wanted.onNotRecorded?.(numbered);
      throw error;
    }
  }

  #record(call: Asking & Pick<CallContext, "contextId">, wanted: WantedTask): Promise<Task> {
    const { tablet, clock, queueLengths, cpisOf, onRecorded } = this.#options;
    const traceParent = activeTraceParent();
    let recorded: Task | undefined;
    const durable = tablet.transact((tx) => {
      const { job, queue, description, joins } = wanted;
      const present = joins && sameIn(tx, queue, joins);
      if (present !== undefined) return present;
      const cpiShare = cpiSetName(cpisOf(job, tx));
      refuseWhenFull(tx, { queue, cpiShare, user: userOf(call) }, queueLengths[queue]);
      wanted.check?.(tx);
      const deployment = typeof wanted.deployment === "string" ? wanted.deployment : wanted.deployment(tx);
      const teams = teamsOf(tx, deployment, job);
      const task = newTask(
        {
          taskId: nextNumber(tx, "task"),
          description,
          queue,
          user: userOf(call),
          deployment,
          job,
          cpiShare,
          ...(call.contextId !== undefined && { contextId: call.contextId }),
          ...(call.requestId !== undefined && { requestId: call.requestId, authentication: authenticationOf(call) }),
          ...(traceParent !== undefined && { traceParent }),
          ...(teams.length > 0 && { teams }),
        },
        clock.nowMs(),
      );
      tx.tasks.put(task);
      wanted.onNumbered?.(task.taskId, tx);
      recorded = task;
      return task;
    });
    if (recorded !== undefined) onRecorded(recorded);
    return durable;
  }

  async get(taskId: number): Promise<Task> {
    const { tablet, endedTasks } = this.#options;
    const task = await tablet.read((tables) => tables.tasks.get(taskKey(taskId)));
    // A task missing in both reads does not exist, because tasks move only from the tablet into the log.
    return task ?? (await endedTasks.get(taskId)) ?? taskNotFound(taskId);
  }

  /** Requests a task's stop; `note` runs in the same transaction. */
  stop(taskId: number, stop: Stop, note: NoteOfTask): Promise<Task> {
    return this.#change(taskId, (tx, task) => {
      const stopped = stopTask(tx, task, stop, this.#options.clock.nowMs());
      note(tx, task);
      return stopped;
    });
  }

  /** Releases a task that was restored from a backup to run; `note` runs in the same transaction. */
  resume(taskId: number, note: NoteOfTask): Promise<Task> {
    return this.#change(taskId, (tx, task) => {
      const resumed = resume(task);
      tx.tasks.put(resumed);
      note(tx, task);
      return resumed;
    });
  }

  /** Applies `change` to a task in the tablet or in the log; `change` throws for ended tasks. */
  async #change(taskId: number, change: (tx: DirectorTransaction, task: Task) => Task): Promise<Task> {
    const { tablet, endedTasks } = this.#options;
    const changed = await tablet.transact((tx) => {
      const task = tx.tasks.get(taskKey(taskId));
      return task && change(tx, task);
    });
    if (changed !== undefined) return changed;
    const ended = (await endedTasks.get(taskId)) ?? taskNotFound(taskId);
    return tablet.transact((tx) => change(tx, ended));
  }

  /** Returns the task once it has ended, or its current state when the call's deadline is near. */
  whenEnded(taskId: number, call: Waiting): Promise<Task> {
    return ofStarted(taskId, this.#whenEnded(taskId, call));
  }

  async #whenEnded(taskId: number, call: Waiting): Promise<Task> {
    const { changes, clock, answerMarginMs } = this.#options;
    const leftMs = Math.max(0, call.deadlineAtMs - clock.nowMs() - answerMarginMs);
    const timeoutMs = Math.min(leftMs, MAX_TIMER_MS);
    const ended = async (): Promise<Task | undefined> => {
      const task = await this.get(taskId);
      return hasEnded(task) ? task : undefined;
    };
    return (await changes.until(taskId, ended, { timeoutMs, clock, signal: call.signal })) ?? this.get(taskId);
  }
}

function sameIn({ tasks }: DirectorTables, queue: TaskQueue, isSame: (task: Task) => boolean): Task | undefined {
  return [...tasks.by("liveByQueue", queue)].find((task) => task.state !== "cancelling" && isSame(task));
}

/** Returns the teams of the task's existing deployment, or of the deployment that the task will create. */
function teamsOf({ deployments }: DirectorTables, name: string, job: Job): readonly string[] {
  const deployment = deployments.get(name);
  if (deployment !== undefined) return deployment.teams ?? [];
  return job.type === "update_deployment" ? (job.teams ?? []) : [];
}

/**
 * Awaits a result of a task that was started. Failures to read the result get the outcome "unknown", because a caller
 * that is told "not done" would start a second task.
 */
export async function ofStarted<Result>(taskId: number, seeing: Promise<Result>): Promise<Result> {
  try {
    return await seeing;
  } catch (error) {
    if (!(error instanceof UnavailableError || error instanceof FencedError)) throw error;
    throw new UnavailableError(`task ${taskId} was started, but its outcome cannot be read here: ${error.message}`, {
      about: { task_id: String(taskId) },
      outcome: "unknown",
      cause: error,
    });
  }
}

export function taskNotFound(taskId: number): never {
  throw new NotFoundError(`there is no task ${taskId}; the director deletes old tasks`, {
    about: { task_id: String(taskId) },
  });
}

/** Requests the task's stop within a transaction; throws InvalidStateError if the task has ended. */
export function stopTask(tx: DirectorTransaction, task: Task, stop: Stop, nowMs: number): Task {
  const { taskId } = task;
  if (hasEnded(task)) {
    throw new InvalidStateError(`task ${taskId} has ended (${task.state}): it cannot be cancelled any more`, {
      reason: "TASK_ENDED",
      about: { task_id: String(taskId) },
    });
  }
  const stopped = requestStop(task, stop, nowMs);
  tx.tasks.put(stopped);
  return stopped;
}

import { FencedError, InvalidStateError, NotFoundError, UnavailableError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Changes, Clock } from "@diskmesh/service";
import { type Asking, authenticationOf, userOf } from "../audit/asker.js";
import { type DirectorTables, type DirectorTransaction, nextNumber, taskKey } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded, type Job, type Stop, type Task, type TaskQueue } from "../store/task.js";
import type { EndedTasks } from "./ended-tasks.js";
import { refuseWhenFull } from "./queue-room.js";
import { newTask, requestStop, resume } from "./task.js";
import { activeTraceParent } from "./task-span.js";
import { shareNameOf } from "./worker-shares.js";

/** Node takes more for 1. */
const MAX_TIMER_MS = 2_147_483_647;

export interface TasksOptions {
  readonly tablet: DirectorTablet;
  readonly endedTasks: Pick<EndedTasks, "get">;
  readonly changes: Changes<number>;
  readonly clock: Clock;
  /** Most tasks of each queue that have not ended. */
  readonly queueLengths: Readonly<Record<TaskQueue, number>>;
  /** The CPIs that a task may have to ask, by what is recorded now. */
  readonly cpisOf: (job: Job, tables: DirectorTables) => readonly string[];
  /** Hears of a task in the turn in which it is recorded, before that is durable: what it records next shares the commit. */
  readonly onRecorded: (task: Task) => void;
  readonly answerMarginMs: number;
}

export interface WantedTask {
  readonly job: Job;
  readonly queue: TaskQueue;
  readonly description: string;
  /** Which deployment it is about, as far as is known; empty for none. */
  readonly deployment: string | ((tables: DirectorTables) => string);
  /** Decides on the state of this moment whether to accept it; throws to refuse. */
  readonly check?: (tables: DirectorTables) => void;
  /** A task that has not ended and is the same: it is answered instead. By default each is one of its own. */
  readonly joins?: (task: Task) => boolean;
  /** Hears its number before anybody can run it. */
  readonly onNumbered?: (taskId: number) => void;
  /** Hears of a number that it could not be recorded under: this process will never run it. */
  readonly onNotRecorded?: (taskId: number) => void;
}

/** The part of a call that says how long it waits. */
type Waiting = Pick<CallContext, "deadlineAtMs" | "signal">;

type NoteOfTask = (tx: DirectorTransaction, task: Task) => void;

/** The durable side of tasks, for handlers: what is written here, the runner hears of and acts on. */
export class Tasks {
  readonly #options: TasksOptions;

  constructor(options: TasksOptions) {
    this.#options = options;
  }

  /** Records a task. Once this resolves it will be run, whatever happens to this process. */
  async start(call: Asking & Pick<CallContext, "contextId">, wanted: WantedTask): Promise<Task> {
    let numbered: number | undefined;
    const onNumbered = (taskId: number): void => {
      numbered = taskId;
      wanted.onNumbered?.(taskId);
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
      const cpiShare = shareNameOf(cpisOf(job, tx));
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
      wanted.onNumbered?.(task.taskId);
      recorded = task;
      return task;
    });
    if (recorded !== undefined) onRecorded(recorded);
    return durable;
  }

  async get(taskId: number): Promise<Task> {
    const { tablet, endedTasks } = this.#options;
    const task = await tablet.read((tables) => tables.tasks.get(taskKey(taskId)));
    // It may have been put away between the two, never brought back.
    return task ?? (await endedTasks.get(taskId)) ?? notFound(taskId);
  }

  /** Asks a task to stop; `note` is called in the same transaction. */
  stop(taskId: number, stop: Stop, note: NoteOfTask): Promise<Task> {
    return this.#change(taskId, (tx, task) => {
      const stopped = stopTask(tx, task, stop, this.#options.clock.nowMs());
      note(tx, task);
      return stopped;
    });
  }

  /** Lets a task that was restored from a backup run; `note` is called in the same transaction. */
  resume(taskId: number, note: NoteOfTask): Promise<Task> {
    return this.#change(taskId, (tx, task) => {
      const resumed = resume(task);
      tx.tasks.put(resumed);
      note(tx, task);
      return resumed;
    });
  }

  /** `change` refuses tasks that have ended, wherever they are. */
  async #change(taskId: number, change: (tx: DirectorTransaction, task: Task) => Task): Promise<Task> {
    const { tablet, endedTasks } = this.#options;
    const changed = await tablet.transact((tx) => {
      const task = tx.tasks.get(taskKey(taskId));
      return task && change(tx, task);
    });
    if (changed !== undefined) return changed;
    const ended = (await endedTasks.get(taskId)) ?? notFound(taskId);
    return tablet.transact((tx) => change(tx, ended));
  }

  /** The task once it has ended, or as it is when the call's deadline is near. */
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

/** Returns the teams of the task's deployment, present or future. */
function teamsOf({ deployments }: DirectorTables, name: string, job: Job): readonly string[] {
  const deployment = deployments.get(name);
  if (deployment !== undefined) return deployment.teams ?? [];
  return job.type === "update_deployment" ? (job.teams ?? []) : [];
}

/** The task is there, whatever keeps it from being seen: a caller that is told "not done" would start a second. */
export async function ofStarted<Result>(taskId: number, seeing: Promise<Result>): Promise<Result> {
  try {
    return await seeing;
  } catch (error) {
    if (!(error instanceof UnavailableError || error instanceof FencedError)) throw error;
    throw new UnavailableError(`task ${taskId} was started; what became of it cannot be seen here: ${error.message}`, {
      about: { task_id: String(taskId) },
      outcome: "unknown",
      cause: error,
    });
  }
}

function notFound(taskId: number): never {
  throw new NotFoundError(`there is no task ${taskId}; old tasks are forgotten`, {
    about: { task_id: String(taskId) },
  });
}

/** Within a transaction. */
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

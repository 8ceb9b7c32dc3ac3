import { DomainError, type Logger, messageOf } from "@diskmesh/domain";
import { histogramOf } from "@diskmesh/metrics";
import { statusOfError } from "@diskmesh/rpc";
import { type Changes, type Clock, WorkQueue } from "@diskmesh/service";
import type { Change } from "@diskmesh/tablet";
import type { Events } from "../audit/events.js";
import type { LockKeeper } from "../locks/lock-keeper.js";
import { type DirectorTables, taskKey } from "../store/schema.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { Job, Task, TaskFailure, TaskQueue } from "../store/task.js";
import { hasEnded, TASK_QUEUES } from "../store/task.js";
import { CODES, codeOf } from "./bosh-codes.js";
import type { Plan, Step, Through } from "./job.js";
import { directorMetrics } from "./metrics.js";
import type { TaskEnd } from "./task.js";
import { end, putBack, take } from "./task.js";
import type { TaskLog } from "./task-log.js";
import { TaskRun } from "./task-run.js";
import { inTaskSpan } from "./task-span.js";
import type { TaskTimes } from "./task-times.js";
import { WorkerQuotas } from "./worker-quotas.js";

export interface TaskRunnerOptions {
  readonly tablet: DirectorTablet;
  readonly events: Pick<Events, "flush">;
  readonly plan: Plan;
  /**
   * Loads the data that planning the job needs, because planning itself cannot wait. The runner disposes of the
   * returned resource after use.
   */
  readonly prepare: (job: Job, signal: AbortSignal) => Promise<Disposable | undefined>;
  readonly locks: LockKeeper;
  readonly taskLog: TaskLog;
  readonly changes: Changes<number>;
  readonly times: TaskTimes;
  /** Called when a task has ended and its work has settled. */
  readonly onForgotten: (taskId: number) => void;
  /** The number of tasks with the same CPI set that run concurrently in each queue. */
  readonly workers: Readonly<Record<TaskQueue, number>>;
  /** Maximum live tasks in each queue. */
  readonly queueLengths: Readonly<Record<TaskQueue, number>>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The end of a task and the record written in the same transaction. */
type Ending = { readonly how: TaskEnd; readonly record?: Through["record"] };

type Planned =
  | { readonly kind: "step"; readonly task: Task; readonly step: Step }
  | { readonly kind: "end"; readonly how: TaskEnd }
  | { readonly kind: "over" };

/**
 * Runs tasks. A queue holds task ids, and each step is planned from the tables, so a task can be abandoned at any
 * moment and resumed. A task that waits for a lock gives its worker back. Each queue has separate workers for each set
 * of CPIs, so tasks that wait for a hanging CPI block no task that does not call it. A plan may rest on a commit that
 * is not durable yet. The runner awaits durability before a step takes effect or an end is published.
 */
export class TaskRunner {
  readonly #options: TaskRunnerOptions;
  readonly #queues: Readonly<Record<TaskQueue, WorkQueue>>;
  readonly #workers: Readonly<Record<TaskQueue, WorkerQuotas>>;
  readonly #running = new Map<number, TaskRun>();
  /** Tasks whose start this director has recorded. */
  readonly #taken = new Set<number>();
  /** Tasks that wait for a lock, with the start of the wait. */
  readonly #waiting = new Map<number, { readonly queue: TaskQueue; readonly sinceMs: number }>();
  #started = false;
  #closing = false;
  #unwatch: () => void = () => {};

  constructor(options: TaskRunnerOptions) {
    this.#options = options;
    const byQueue = <Value>(make: (queue: TaskQueue) => Value) =>
      Object.fromEntries(TASK_QUEUES.map((name) => [name, make(name)])) as Record<TaskQueue, Value>;
    this.#queues = byQueue((name) => this.#newQueue(name));
    this.#workers = byQueue((name) => new WorkerQuotas(options.workers[name]));
    // Registered before start(), so that watchers receive changes of tasks that cannot run yet.
    this.#unwatch = options.tablet.watch((changes) => this.#onChanges(changes));
  }

  /**
   * Enqueues the recorded tasks and, from now on, new tasks. Call only after the dispatchers refuse calls of former
   * directors.
   */
  async start(): Promise<void> {
    this.#started = true;
    const live = await this.#options.tablet.read((tables) => [...tables.tasks.by("byEnd", "live")]);
    // Oldest first.
    for (const task of live.reverse()) if (task.state !== "held") this.enqueue(task);
  }

  enqueue(task: Pick<Task, "taskId" | "queue">): void {
    if (this.#started) this.#queues[task.queue].enqueue(String(task.taskId));
  }

  /** Enqueues tasks that were granted a lock. */
  resume(taskIds: readonly number[]): void {
    for (const taskId of taskIds) {
      const waits = this.#waiting.get(taskId);
      if (waits !== undefined) this.enqueue({ taskId, queue: waits.queue });
    }
  }

  /** Stops a running task; does nothing for a task that is not running. */
  stopRun(taskId: number): void {
    this.#running.get(taskId)?.stop();
  }

  /** Interrupts running tasks without recording an end, so that the next director resumes them. */
  async close(): Promise<void> {
    this.#closing = true;
    for (const run of this.#running.values()) run.interrupt();
    await Promise.all(Object.values(this.#queues).map((queue) => queue.close()));
    this.#unwatch();
  }

  #newQueue(name: TaskQueue): WorkQueue {
    const { clock, queueLengths, log } = this.#options;
    return new WorkQueue({
      name,
      // Every live task may be planned concurrently; the workers limit how many run.
      concurrency: queueLengths[name],
      backoff: { minDelayMs: 100, maxDelayMs: 5_000 },
      clock,
      process: async (key) => {
        await this.#process(Number(key));
        return "done";
      },
      onFailure: ({ key, error, retryInMs }) => {
        log.error({ taskId: Number(key), error, retryInMs }, "task attempt failed, retrying");
      },
    });
  }

  #onChanges(changes: readonly Change[]): void {
    for (const change of changes) {
      if (change.table !== "tasks" || change.document === null) continue;
      const task = change.document as Task;
      this.#options.changes.touch(task.taskId);
      if (task.state === "queued") this.enqueue(task);
      if (task.state === "cancelling") {
        this.stopRun(task.taskId);
        this.enqueue(task);
      }
      if (hasEnded(task) && !this.#running.has(task.taskId)) this.#forget(task.taskId);
    }
  }

  async #process(taskId: number): Promise<void> {
    if (this.#closing) return;
    const { taskLog, clock, locks } = this.#options;
    const run = new TaskRun(taskId, taskLog, clock, locks);
    this.#running.set(taskId, run);
    let outcome: "waiting" | "waiting_for_worker" | "ended" = "waiting";
    try {
      const task = this.#options.tablet.ahead((tables) => tables.tasks.get(taskKey(taskId)));
      outcome = await inTaskSpan(task, run, () => this.#advance(taskId, run));
    } finally {
      this.#running.delete(taskId);
      if (outcome !== "waiting_for_worker") this.#releaseWorker(taskId);
    }
    if (outcome === "ended") this.#forget(taskId);
    // A task that was stopped while it was being put back has ended. #onChanges forgets no running task, so the task is
    // forgotten here.
    else if (!this.#closing && (await this.#isOver(taskId))) this.#forget(taskId);
  }

  #isOver(taskId: number): Promise<boolean> {
    return this.#options.tablet.read((tables) => {
      const task = tables.tasks.get(taskKey(taskId));
      return task === undefined || hasEnded(task);
    });
  }

  /** Releases all that this process holds for the task: the task has ended and its work has settled. */
  #forget(taskId: number): void {
    this.#taken.delete(taskId);
    this.#waiting.delete(taskId);
    this.#options.times.forget(taskId);
    this.#options.taskLog.forget(taskId);
    this.#options.onForgotten(taskId);
    this.#releaseWorker(taskId);
    this.#options.locks.release(taskId);
  }

  #releaseWorker(taskId: number): void {
    for (const queue of TASK_QUEUES) {
      const next = this.#workers[queue].release(taskId);
      if (next !== undefined) this.enqueue({ taskId: next, queue });
    }
  }

  async #advance(taskId: number, run: TaskRun): Promise<"waiting" | "waiting_for_worker" | "ended"> {
    let prepared: Disposable | undefined;
    try {
      prepared = await this.#prepare(taskId, run);
    } catch (error) {
      if (run.stopping.aborted) return "waiting";
      await this.#end(run, { how: this.#endBy(run, error) });
      return "ended";
    }
    try {
      return await this.#runSteps(taskId, run);
    } finally {
      prepared?.[Symbol.dispose]();
    }
  }

  async #prepare(taskId: number, run: TaskRun): Promise<Disposable | undefined> {
    const { tablet, prepare } = this.#options;
    const task = tablet.ahead((tables) => tables.tasks.get(taskKey(taskId)));
    if (task === undefined || hasEnded(task) || task.state === "cancelling" || task.job === null) return undefined;
    return prepare(task.job, run.stopped);
  }

  async #runSteps(taskId: number, run: TaskRun): Promise<"waiting" | "waiting_for_worker" | "ended"> {
    for (;;) {
      const planned = this.#plan(taskId);
      if (planned.kind === "over") return "ended";
      if (planned.kind === "end") {
        await this.#end(run, planned);
        return "ended";
      }
      const { task, step } = planned;
      run.disk = this.#options.tablet.ahead((tables) => diskOf(tables, taskId)) ?? run.disk;
      if (!this.#takeWorker(task, step)) {
        await this.#putBack(task);
        return "waiting_for_worker";
      }
      const settled = this.#options.locks.settle(taskId, step.locks);
      if (settled === "waiting") {
        const sinceMs = this.#waiting.get(taskId)?.sinceMs ?? this.#options.clock.monotonicMs();
        this.#waiting.set(taskId, { queue: task.queue, sinceMs });
        await this.#putBack(task);
        return "waiting";
      }
      this.#noteWait(taskId);
      // The plan is current, because nothing was awaited since it was made. A task that has to wait for a worker or a
      // lock leaves this loop and is planned again later.
      const { isTaken, durable } = this.#take(taskId);
      if (!isTaken || !step.recordsFirst) await durable;
      if (!isTaken) continue;
      const [ending] = await Promise.all([this.#runStep(step, run), durable]);
      if (ending === "interrupted") {
        // Flushed here because the event log closes after the runner.
        await this.#options.taskLog.flush(taskId);
        return "waiting";
      }
      if (ending !== "more") {
        await this.#end(run, ending);
        return "ended";
      }
    }
  }

  /** Ends the task's lock wait, if any, and records the duration. */
  #noteWait(taskId: number): void {
    const waits = this.#waiting.get(taskId);
    if (waits === undefined) return;
    this.#waiting.delete(taskId);
    const waitedMs = this.#options.clock.monotonicMs() - waits.sinceMs;
    histogramOf(directorMetrics.lockWait).record(waitedMs / 1_000, { queue: waits.queue });
  }

  /** A task without a worker keeps only its deployment and stemcell locks, so that it blocks no other task. */
  #takeWorker({ taskId, queue }: Task, { cpis }: Step): boolean {
    const { hasWorker, next } = this.#workers[queue].take(taskId, cpis);
    if (next !== undefined) this.enqueue({ taskId: next, queue });
    if (!hasWorker) this.#options.locks.keep(taskId, ["deployment", "stemcell"]);
    return hasWorker;
  }

  #plan(taskId: number): Planned {
    const { tablet, plan } = this.#options;
    return tablet.ahead((tables): Planned => {
      const task = tables.tasks.get(taskKey(taskId));
      if (task === undefined || hasEnded(task) || task.job === null || task.state === "held") return { kind: "over" };
      if (task.state === "cancelling") return { kind: "end", how: { event: "heed" } };
      try {
        return { kind: "step", task, step: plan(task.job, tables, taskId) };
      } catch (error) {
        return { kind: "end", how: this.#failed(taskId, error) };
      }
    });
  }

  /** Records the task's start. `isTaken` is false when the task was stopped in the meantime. */
  #take(taskId: number): { readonly isTaken: boolean; readonly durable: Promise<void> } {
    const { tablet, clock, times } = this.#options;
    const again = this.#taken.has(taskId);
    let isTaken = false;
    const durable = tablet.transact((tx) => {
      const task = tx.tasks.get(taskKey(taskId));
      if (task === undefined || hasEnded(task) || task.state === "cancelling") return;
      isTaken = true;
      const taken = task.state === "processing" && again ? task : take(task, clock.nowMs(), { again });
      if (taken !== task) tx.tasks.put(taken);
      this.#taken.add(taskId);
      times.begin(taken);
    });
    return { isTaken, durable };
  }

  async #putBack(task: Task): Promise<void> {
    if (task.state !== "processing") return;
    await this.#options.tablet.transact((tx) => {
      const current = tx.tasks.get(taskKey(task.taskId));
      if (current?.state === "processing") tx.tasks.put(putBack(current));
    });
  }

  async #runStep(step: Step, run: TaskRun): Promise<Ending | "more" | "interrupted"> {
    try {
      const done = await step.run(run);
      if (done === undefined) return "more";
      if (typeof done === "string") return { how: { event: "succeed", result: done } };
      const { record, ...ended } = done;
      return { how: { event: "succeed", ...ended }, record };
    } catch (error) {
      return run.stopping.aborted ? "interrupted" : { how: this.#endBy(run, error) };
    }
  }

  #endBy(run: TaskRun, error: unknown): TaskEnd {
    if (!run.stopped.aborted) return this.#failed(run.taskId, error);
    const isUnknown = error instanceof DomainError && error.outcome === "unknown";
    return isUnknown ? { event: "heed", unknown: messageOf(error) } : { event: "heed" };
  }

  async #end(run: TaskRun, { how, record }: Ending): Promise<void> {
    const { tablet, events, taskLog, clock, log } = this.#options;
    const { taskId } = run;
    if (how.event !== "succeed") {
      const task = await tablet.read((tables) => tables.tasks.get(taskKey(taskId)));
      if (task === undefined || hasEnded(task)) return;
      const { result } = end(task, how, clock.nowMs());
      run.failure(result, how.event === "heed" ? CODES.taskCancelled : (how.code ?? CODES.any));
    }
    // Flushed in the same turn, so that both logs share a commit. A client that sees the end can then read all lines.
    void events.flush();
    await taskLog.flush(taskId);
    const ended = await tablet.transact((tx) => {
      record?.(tx);
      run.disk = diskOf(tx, taskId) ?? run.disk;
      const current = tx.tasks.get(taskKey(taskId));
      if (current === undefined || hasEnded(current)) return undefined;
      const outputSizeBytes = (current.outputSizeBytes ?? 0) + taskLog.sizeBytes(taskId);
      const next = { ...end(current, how, clock.nowMs()), eventCount: taskLog.eventCount(taskId), outputSizeBytes };
      tx.tasks.put(next);
      return next;
    });
    if (ended === undefined) return;
    const { type, user, state, createdAtMs } = ended;
    log.info({ taskId, type, ...run.disk, user, state, durationMs: clock.nowMs() - createdAtMs }, "task ended");
  }

  #failed(taskId: number, error: unknown): TaskEnd {
    return { event: "fail", result: this.#textOf(taskId, error), failure: failureOf(error), code: codeOf(error) };
  }

  /** Returns the message of a domain error, which is meant for the user. Logs any other error, because it is a bug. */
  #textOf(taskId: number, error: unknown): string {
    if (error instanceof DomainError) return messageOf(error);
    this.#options.log.error({ taskId, error }, "task failed with an internal error");
    return `an internal error; the director's log says more under taskId ${taskId}`;
  }
}

/** Returns the failure for clients. A failed CPI call is reported by its cause, the CPI's own error. */
function failureOf(error: unknown): TaskFailure | undefined {
  if (!(error instanceof DomainError)) return undefined;
  const shown = error.reason === "CPI_CALL" && error.cause instanceof DomainError ? error.cause : error;
  const { reason, about } = shown;
  return { reason, about, code: statusOfError(shown, "").code };
}

/** Returns the recorded dynamic disk that a task is about; undefined without such a disk. */
function diskOf({ tasks, disks }: Pick<DirectorTables, "tasks" | "disks">, taskId: number): TaskRun["disk"] {
  const job = tasks.get(taskKey(taskId))?.job;
  const disk = job && "diskName" in job ? disks.get(job.diskName) : undefined;
  return disk && { diskName: disk.name, diskCid: disk.diskCid };
}

import type { Cause as CauseOf } from "@diskmesh/domain";
import { type HeldLock, type LockOwner, ownerText } from "./locks.js";
import { hasEnded, type Task } from "./task.js";
import type { TaskEvent } from "./task-event.js";

/** Why a task or a lock is as it is: what it waits for, since when, and how a person ends that. */

export type Subject = { readonly kind: "TASK" | "LOCK"; readonly name: string };

type Reason = "HELD" | "WAITS_FOR_LOCK" | "WAITS_FOR_WORKER" | "IS_TO_STOP" | "AT_WORK" | "LOCK_HELD";
export type Cause = CauseOf<Subject, Reason>;

export interface Known {
  readonly taskOf: (taskId: number) => Task | undefined;
  readonly locks: readonly (HeldLock & LockOwner)[];
  /** Of tasks that run: what was begun and has not ended. */
  readonly openSteps: (taskId: number) => readonly TaskEvent[];
  /** How many tasks of a queue have not ended. */
  readonly liveIn: (queue: Task["queue"]) => number;
}

export function causesOf(subject: Subject, known: Known): Cause[] {
  const found = subject.kind === "TASK" ? taskCauses(Number(subject.name), known) : lockCauses(subject.name, known);
  return found.map((cause) => ({ subject, ...cause }));
}

type Found = Omit<Cause, "subject">;

export function lockName({ type, resource }: Pick<HeldLock, "type" | "resource">): string {
  return `${type}:${resource}`;
}

/** Steps that were begun and have not ended, in the order in which they began. */
export function openSteps(events: readonly TaskEvent[]): TaskEvent[] {
  const open = new Map<string, TaskEvent>();
  for (const event of events) {
    const key = `${event.index} ${event.stage}`;
    if (event.state === "started") open.set(key, event);
    else open.delete(key);
  }
  return [...open.values()];
}

const SHOWN_STEPS = 3;

function taskCauses(taskId: number, known: Known): Found[] {
  const task = known.taskOf(taskId);
  if (task === undefined || hasEnded(task)) return [];
  const { state, queue, createdAtMs } = task;
  const cancel = ["end it where it can end cleanly", `diskmesh cancel ${taskId}`] as const;
  if (state === "held") {
    const resume = ["have it run", `diskmesh resume ${taskId}`] as const;
    const message = `task ${taskId} was under way when the backup was made that was restored: nobody knows how far it came`;
    return [{ reason: "HELD", message, sinceMs: createdAtMs, cures: [resume, cancel] }];
  }
  const waits = known.locks
    .filter(({ waitingTaskIds }) => waitingTaskIds.includes(taskId))
    .map((lock): Found => {
      const message = `task ${taskId} waits for the lock of ${lock.type} ${lock.resource}`;
      return {
        reason: "WAITS_FOR_LOCK",
        message,
        cures: [cancel],
        becauseOf: [{ kind: "LOCK", name: lockName(lock) }],
      };
    });
  if (waits.length > 0) return waits;
  if (state === "queued") {
    const message = `task ${taskId} waits for a worker: ${known.liveIn(queue)} tasks of queue ${queue} have not ended`;
    return [{ reason: "WAITS_FOR_WORKER", message, sinceMs: createdAtMs, cures: [cancel] }];
  }
  const steps = known.openSteps(taskId);
  const shown = steps.slice(-SHOWN_STEPS).map(({ stage, task: what }) => (what === "" ? stage : `${stage} (${what})`));
  const doing = shown.length === 0 ? "has begun no step" : `is at: ${shown.join("; ")}`;
  const sinceMs = steps.at(-1)?.timeMs ?? task.startedAtMs ?? undefined;
  if (state === "cancelling")
    return [
      {
        reason: "IS_TO_STOP",
        message: `task ${taskId} is to end, as soon as it can end cleanly, and ${doing}`,
        sinceMs,
      },
    ];
  return [{ reason: "AT_WORK", message: `task ${taskId} ${doing}`, sinceMs, cures: [cancel] }];
}

function lockCauses(name: string, { locks, taskOf }: Known): Found[] {
  const lock = locks.find((each) => lockName(each) === name);
  if (lock === undefined) return [];
  const { type, resource, taskId, what, deadlineAtMs, waitingTaskIds } = lock;
  const held = `${type} ${resource} is held by ${ownerText(lock, taskOf(taskId)?.description)}`;
  const waiting = waitingTaskIds.length === 0 ? "" : `; ${waitingTaskIds.length} wait for it`;
  if (what !== "") return [{ reason: "LOCK_HELD", message: `${held}, and free when that has been answered${waiting}` }];
  return [
    {
      reason: "LOCK_HELD",
      message: `${held}, which is told to stop if it shows no sign of life until then${waiting}`,
      nextTryAtMs: deadlineAtMs,
      becauseOf: [{ kind: "TASK", name: String(taskId) }],
    },
  ];
}

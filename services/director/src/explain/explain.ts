import { type Cure, countText, type Reason } from "@diskmesh/domain";
import { callText } from "../cpi/cpi-call.js";
import { type LockName, lockName, ownerText } from "../locks/locks.js";
import type { CpiCall } from "../store/cpi-call.js";
import { hasEnded, type Task } from "../store/task.js";
import type { TaskEvent } from "../tasks/task-event.js";
import { type Cause, DIRECTOR, type Found, type Known, type Subject } from "./cause.js";
import { diskCauses, vmCauses } from "./explain-vm.js";

/** Returns the causes of the state of a task, a lock, a VM or a disk, with their start times and remedies. */

export function causesOf(subject: Subject, known: Known): Cause[] {
  return foundOf(subject, known).map((cause) => ({ subject, ...cause }));
}

function foundOf({ kind, name }: Subject, known: Known): Found[] {
  switch (kind) {
    case "TASK": {
      const task = known.taskOf(Number(name));
      return task === undefined ? [] : taskCauses(task, known);
    }
    case "LOCK":
      return lockCauses(name, known);
    case "VM":
      return vmCauses(known.vmOf(name), known);
    case "DISK":
      return diskCauses(known.diskOf(name), known);
    case "SERVICE":
      return [known.dispatcherNeed()].filter((each) => each !== undefined);
    case "HOST":
    case "DEVICE":
    case "POOL":
      return [];
  }
}

/** Returns the steps that have begun and not ended, in order of their begin. */
export function openSteps(events: readonly TaskEvent[]): TaskEvent[] {
  const open = new Map<string, TaskEvent>();
  for (const event of events) {
    const key = `${event.index} ${event.stage}`;
    if (event.state === "started") open.set(key, event);
    else if (event.state !== "in_progress") open.delete(key);
  }
  return [...open.values()];
}

const SHOWN_STEPS = 3;

/** Time for which a failed task is trouble. */
const LATELY_MS = 600_000;

export function taskCauses(task: Task, known: Known): Found[] {
  if (hasEnded(task)) {
    const isRoutine = known.nowMs - (task.endedAtMs ?? 0) >= LATELY_MS || isCallersMistake(task);
    return failure(task).map((found) => ({ ...found, isRoutine }));
  }
  const { taskId, state, queue, createdAtMs, startedAtMs } = task;
  const isRecent = (sinceMs: number): boolean => known.nowMs - sinceMs <= known.stuckAfterMs;
  const cancel: Cure = ["cancel it: it ends at its next safe point", `diskmesh cancel ${taskId}`];
  if (state === "held") {
    const resume = ["resume it", `diskmesh resume ${taskId}`] as const;
    const message = `task ${taskId} was running when the restored backup was made: its progress since then is not known`;
    return [{ reason: "HELD", message, sinceMs: createdAtMs, cures: [resume, cancel] }];
  }
  const waits = known.locks
    .filter(({ waitingTaskIds }) => waitingTaskIds.includes(taskId))
    .map((lock): Found => {
      const message = `task ${taskId} waits for the lock of ${lock.type} ${lock.resource}, which ${ownerText(lock, known.taskOf(lock.taskId)?.description)} holds`;
      return {
        reason: "WAITS_FOR_LOCK",
        message,
        sinceMs: Math.max(startedAtMs ?? createdAtMs, lock.sinceMs),
        cures: [cancel],
        becauseOf: [{ kind: "LOCK", name: lockName(lock) }],
      };
    });
  if (waits.length > 0) return waits;
  if (state === "queued") {
    const message = `task ${taskId} waits for a worker: ${known.liveIn(queue)} tasks of queue ${queue} have not ended`;
    const isRoutine = isRecent(createdAtMs);
    return [{ reason: "WAITS_FOR_WORKER", message, sinceMs: createdAtMs, cures: [cancel], isRoutine }];
  }
  const steps = known.openSteps(taskId);
  const shown = steps.slice(-SHOWN_STEPS).map(({ stage, task: what }) => (what === "" ? stage : `${stage} (${what})`));
  const doing = shown.length === 0 ? "has started no step" : `is at: ${shown.join("; ")}`;
  const sinceMs = steps.at(-1)?.timeMs ?? startedAtMs ?? undefined;
  const isToStop = state === "cancelling";
  const becauseOf = known.locks.filter((lock) => lock.taskId === taskId).flatMap((lock) => lockedBy(lock, known));
  const end: Cure[] = isToStop ? [] : [["cancel the task, which ends this call", cancel[1]]];
  const calls = [
    ...known.callsOf(taskId).map((call) => ({ ...callUnderWay(call), isRoutine: isRecent(call.sinceMs) })),
    ...known.retriesOf(taskId).map(({ method, why, sinceMs: since }): Found => {
      const message = `${method} of task ${taskId} is tried again: ${why}`;
      const isRoutine = known.nowMs - since <= RETRIES_END_WITHIN_MS;
      return { reason: "CPI_RETRIED", message, sinceMs: since, isRoutine, cures: [MEND] };
    }),
  ]
    .slice(0, SHOWN_STEPS)
    .map((call): Found => ({ ...call, cures: [...(call.cures ?? []), ...end], becauseOf: [DIRECTOR] }));
  const stopping = `task ${taskId} is being cancelled and ends at its next safe point; it ${doing}`;
  const work: Found = isToStop
    ? { reason: "IS_TO_STOP", message: stopping, sinceMs, isRoutine: true }
    : { reason: "AT_WORK", message: `task ${taskId} ${doing}`, sinceMs, becauseOf, isRoutine: true };
  return calls.length === 0 && !isToStop ? [{ ...work, cures: [cancel] }] : [...calls, work];
}

/** A restarted dispatcher or registry answers within this time: a call that is retried for longer needs a person. */
const RETRIES_END_WITHIN_MS = 20_000;
const MEND: Cure = ["repair what the message names: the call is then repeated by itself", ""];

function callUnderWay(call: CpiCall): Found {
  return {
    reason: "CPI_AT_WORK",
    message: `${callText(call)} (run by dispatcher ${call.dispatcher})`,
    sinceMs: call.sinceMs,
  };
}

/**
 * Reasons of failures that the caller's request caused. The caller got them as the answer; they are no trouble of the
 * mesh.
 */
const CALLERS_MISTAKES: readonly string[] = [
  "INVALID_ARGUMENT",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "INVALID_STATE",
  "DISK_IN_USE",
  "DISK_DIFFERS",
  "PERMISSION_DENIED",
] satisfies Reason[];

/** Tasks that the director started itself have no request, and nobody who reads their answer. */
function isCallersMistake({ failure: why, requestId }: Task): boolean {
  return requestId !== undefined && why !== undefined && CALLERS_MISTAKES.includes(why.reason);
}

/** Returns the causes of a failed task, with the operator's remedies. */
function failure({ state, result, endedAtMs, failure: why }: Task): Found[] {
  if (state !== "error") return [];
  const { reason = "", about = {} } = why ?? {};
  const failed = { message: result, sinceMs: endedAtMs ?? undefined } as const;
  if (reason === "NO_DISK_SPACE") {
    const { pool = "" } = about;
    const becauseOf: Subject[] = pool === "" ? [] : [{ kind: "POOL", name: pool }];
    return [
      { ...failed, reason: "NO_SPACE", cures: [["free space in the pool, then repeat the request", ""]], becauseOf },
    ];
  }
  if (reason === "CPI_UNUSABLE")
    return [
      {
        ...failed,
        reason: "CPI_UNUSABLE",
        cures: [
          ["repair what the message names: the CPI's executable on the dispatcher's machine, or the cpi config", ""],
          ["see the cpi config", "diskmesh get config cpi"],
          ["then repeat the request", ""],
        ],
      },
    ];
  return [{ ...failed, reason: "FAILED", cures: [["repeat the request once the cause is repaired", ""]] }];
}

/**
 * Returns the subjects that a lock covers; empty for deployments and stemcells, which have no causes. The hosts of a VM
 * are among them, because its agent may be at fault.
 */
function lockedBy({ type, resource }: LockName, { vmOf }: Known): Subject[] {
  if (type === "instance") {
    const { hostIds = [] } = vmOf(resource) ?? {};
    return [{ kind: "VM", name: resource }, ...hostIds.map((name): Subject => ({ kind: "HOST", name }))];
  }
  if (type === "disk") return [{ kind: "DISK", name: resource }];
  return type === "node" ? [{ kind: "HOST", name: resource }] : [];
}

function lockCauses(name: string, { locks, taskOf }: Known): Found[] {
  const lock = locks.find((each) => lockName(each) === name);
  if (lock === undefined) return [];
  const { type, resource, taskId, what, sinceMs, deadlineAtMs, waitingTaskIds } = lock;
  const held = `${type} ${resource} is held by ${ownerText(lock, taskOf(taskId)?.description)}`;
  const waiting =
    waitingTaskIds.length === 0 ? "" : `; ${countText(waitingTaskIds.length, "task waits", "tasks wait")} for it`;
  if (what !== "") return [{ reason: "LOCK_HELD", message: `${held} until that call is answered${waiting}`, sinceMs }];
  return [
    {
      reason: "LOCK_HELD",
      message: `${held}, which is stopped if it makes no progress until then${waiting}`,
      sinceMs,
      nextTryAtMs: deadlineAtMs,
      becauseOf: [{ kind: "TASK", name: String(taskId) }],
    },
  ];
}

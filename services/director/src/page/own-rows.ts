import type { ListCpisResponse } from "@diskmesh/api/cpi";
import type { CpiRow, LockRow, TaskRow } from "@diskmesh/page/rows";
import { callText } from "../cpi/cpi-call.js";
import { lockName, ownerText, type ShownLock } from "../locks/locks.js";
import type { CpiCall } from "../store/cpi-call.js";
import { hasEnded, type Task } from "../store/task.js";
import { about } from "./fleet-rows.js";

/** Longer results are in the task's output. */
const MAX_RESULT_LENGTH = 300;
/** Time for which a failed task is shown with its error. */
const LATELY_MS = 600_000;

/** Facts about tasks that the task records do not contain. */
export interface KnownOfTasks {
  /** The lock for which a task waits. */
  readonly lockFor: (taskId: number) => ShownLock | undefined;
  /** The CPI calls for which a task waits. */
  readonly callsOf: (taskId: number) => readonly CpiCall[];
  /** Time after which waiting work counts as stuck. */
  readonly stuckAfterMs: number;
  readonly nowMs: number;
}

export function taskRow(task: Task, known: KnownOfTasks): TaskRow {
  const { state, description, user, deployment, result, createdAtMs, startedAtMs, endedAtMs } = task;
  const sinceMs = endedAtMs ?? startedAtMs ?? createdAtMs;
  return {
    state,
    description,
    user,
    deployment,
    result: result.slice(0, MAX_RESULT_LENGTH),
    hasEnded: hasEnded(task),
    ...about(troubleOfTask(task, known), new Date(sinceMs)),
  };
}

function troubleOfTask(
  { taskId, state, result, createdAtMs, endedAtMs }: Task,
  { lockFor, callsOf, stuckAfterMs, nowMs }: KnownOfTasks,
): string {
  if (state === "held") return "was restored from a backup: resume or cancel it";
  if (state === "error") return nowMs - (endedAtMs ?? 0) < LATELY_MS ? result.slice(0, MAX_RESULT_LENGTH) : "";
  const waitsFor = lockFor(taskId);
  if (waitsFor !== undefined) return `waits for the lock ${lockName(waitsFor)}, which ${ownerText(waitsFor)} holds`;
  const call = callsOf(taskId).find(({ sinceMs }) => nowMs - sinceMs > stuckAfterMs);
  if (call !== undefined) return callText(call);
  return state === "queued" && nowMs - createdAtMs > stuckAfterMs ? "waits for a worker" : "";
}

export function lockRow(lock: ShownLock): LockRow {
  const { taskId, waitingTaskIds } = lock;
  return { owner: ownerText(lock), taskId, waitingTaskIds };
}

export function cpiRow({ type, apiVersion, azs, lastError }: ListCpisResponse["cpis"][number]): CpiRow {
  // Shows lastError as the row's trouble only for a CPI without a reported version, because such a CPI cannot be
  // called. The last error of any other CPI may be outdated.
  return { type, apiVersion, azs, lastError, ...about(apiVersion === 0 ? lastError : "", undefined) };
}

import type { ListCpisResponse } from "@diskmesh/api/cpi";
import type { CpiRow, LockRow, TaskRow } from "@diskmesh/page/rows";
import { type LockName, lockName, ownerText } from "../model/locks.js";
import { hasEnded, type Task } from "../model/task.js";
import type { ShownLock } from "../workers/lock-keeper.js";
import { about } from "./fleet-rows.js";

/** Longer results are in the task's output. */
const MAX_RESULT_LENGTH = 300;
/** A task that waits for a worker for so long waits too long. */
const LONG_MS = 60_000;

/** `waitsFor`: the lock that it waits for. */
export function taskRow(task: Task, waitsFor: LockName | undefined, nowMs: number): TaskRow {
  const { state, description, user, deployment, result, createdAtMs, startedAtMs, endedAtMs } = task;
  const sinceMs = endedAtMs ?? startedAtMs ?? createdAtMs;
  return {
    state,
    description,
    user,
    deployment,
    result: result.slice(0, MAX_RESULT_LENGTH),
    hasEnded: hasEnded(task),
    ...about(troubleOfTask(task, waitsFor, nowMs), new Date(sinceMs)),
  };
}

function troubleOfTask({ state, createdAtMs }: Task, waitsFor: LockName | undefined, nowMs: number): string {
  if (state === "held") return "was restored from a backup: resume or cancel it";
  if (waitsFor !== undefined) return `waits for the lock ${lockName(waitsFor)}`;
  return state === "queued" && nowMs - createdAtMs > LONG_MS ? "waits for a worker for more than a minute" : "";
}

export function lockRow(lock: ShownLock): LockRow {
  const { taskId, waitingTaskIds } = lock;
  return { owner: ownerText(lock), taskId, waitingTaskIds };
}

export function cpiRow({ type, apiVersion, azs, lastError }: ListCpisResponse["cpis"][number]): CpiRow {
  // One that says not even its version can be asked for nothing. Another one may have met its last error long ago.
  return { type, apiVersion, azs, lastError, ...about(apiVersion === 0 ? lastError : "", undefined) };
}

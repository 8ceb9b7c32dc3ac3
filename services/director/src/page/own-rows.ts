import type { ListCpisResponse } from "@diskmesh/api/cpi";
import type { Reason } from "@diskmesh/domain";
import type { CpiRow, LockRow, OrphanRow, TaskRow } from "@diskmesh/page/rows";
import { callText } from "../cpi/cpi-call.js";
import { lockName, ownerText, type ShownLock } from "../locks/locks.js";
import type { CpiCall } from "../store/cpi-call.js";
import type { PossibleOrphan } from "../store/possible-orphan.js";
import { hasEnded, type Task } from "../store/task.js";
import { about } from "./fleet-rows.js";

/** The explanation of a task has the whole result. */
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
  const { state, description, user, deployment, createdAtMs, startedAtMs, endedAtMs } = task;
  const trouble = troubleOfTask(task, known);
  const sinceMs = trouble?.sinceMs ?? endedAtMs ?? startedAtMs ?? createdAtMs;
  return {
    state,
    description,
    user,
    deployment,
    hasEnded: hasEnded(task),
    ...about(trouble?.text ?? "", new Date(sinceMs)),
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

/** Returns a task's trouble, and its start if that is not the start of the task's state. */
function troubleOfTask(
  task: Task,
  { lockFor, callsOf, stuckAfterMs, nowMs }: KnownOfTasks,
): { readonly text: string; readonly sinceMs?: number } | undefined {
  const { taskId, state, result, createdAtMs, startedAtMs, endedAtMs } = task;
  if (state === "held") return { text: "was restored from a backup: resume or cancel it" };
  if (state === "error")
    return nowMs - (endedAtMs ?? 0) < LATELY_MS && !isCallersMistake(task)
      ? { text: result.length > MAX_RESULT_LENGTH ? `${result.slice(0, MAX_RESULT_LENGTH)}…` : result }
      : undefined;
  const waitsFor = lockFor(taskId);
  if (waitsFor !== undefined)
    return {
      text: `waits for the lock ${lockName(waitsFor)}, which ${ownerText(waitsFor)} holds`,
      sinceMs: Math.max(startedAtMs ?? createdAtMs, waitsFor.sinceMs),
    };
  const call = callsOf(taskId).find(({ sinceMs }) => nowMs - sinceMs > stuckAfterMs);
  if (call !== undefined) return { text: callText(call), sinceMs: call.sinceMs };
  return state === "queued" && nowMs - createdAtMs > stuckAfterMs ? { text: "waits for a worker" } : undefined;
}

/** Tasks that the director started itself have no request, and nobody who reads their answer. */
function isCallersMistake({ failure, requestId }: Task): boolean {
  return requestId !== undefined && failure !== undefined && CALLERS_MISTAKES.includes(failure.reason);
}

export function lockRow(lock: ShownLock): LockRow {
  const { taskId, waitingTaskIds } = lock;
  return { owner: ownerText(lock), taskId, waitingTaskIds };
}

export function orphanRow({ kind, cid = "", madeFor, deployment, reason, sinceMs }: PossibleOrphan): OrphanRow {
  return { what: kind, objectCid: cid, madeFor, deployment, reason, sinceMs };
}

export function cpiRow({ type, apiVersion, azs, lastError }: ListCpisResponse["cpis"][number]): CpiRow {
  // Shows lastError as the row's trouble only for a CPI without a reported version, because such a CPI cannot be
  // called. The last error of any other CPI may be outdated.
  return { type, apiVersion, azs, lastError, ...about(apiVersion === 0 ? lastError : "", undefined) };
}

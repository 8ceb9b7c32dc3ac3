import type { ListCpisResponse } from "@diskmesh/api/cpi";
import { troubleIn } from "@diskmesh/domain";
import type { CpiRow, LockRow, OrphanRow, TaskRow } from "@diskmesh/page/rows";
import type { Known } from "../explain/cause.js";
import { taskCauses } from "../explain/explain.js";
import { ownerText, type ShownLock } from "../locks/locks.js";
import type { PossibleOrphan } from "../store/possible-orphan.js";
import { hasEnded, type Task } from "../store/task.js";
import { progressText, type StepProgress } from "../tasks/step-progress.js";
import { about } from "./fleet-rows.js";

/** The explanation of a task has the whole result. */
const MAX_TROUBLE_LENGTH = 300;

export function taskRow(task: Task, known: Known, progress: StepProgress | undefined): TaskRow {
  const { state, description, user, deployment, createdAtMs, startedAtMs, endedAtMs } = task;
  const { message = "", sinceMs = endedAtMs ?? startedAtMs ?? createdAtMs } = troubleIn(taskCauses(task, known)) ?? {};
  const trouble = message.length > MAX_TROUBLE_LENGTH ? `${message.slice(0, MAX_TROUBLE_LENGTH)}…` : message;
  const shown = progress === undefined ? "" : progressText(progress);
  const told = { state, description, user, deployment, hasEnded: hasEnded(task), progress: shown };
  return { ...told, ...about(trouble, new Date(sinceMs)) };
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

import { InvalidStateError } from "@diskmesh/domain";
import type { Job, SkipDrain, Stop, Task, TaskFailure, TaskState } from "../store/task.js";

export function skipsDrain(skipDrain: SkipDrain, group: string): boolean {
  return typeof skipDrain === "boolean" ? skipDrain : skipDrain.includes(group);
}

export const MAX_RESULT_LENGTH = 2_000;

export type NewTask = Pick<
  Task,
  "taskId" | "description" | "queue" | "user" | "deployment" | "contextId" | "teams" | "traceParent" | "cpiShare"
> & {
  readonly job: Job;
};

export function newTask(wanted: NewTask, nowMs: number): Task {
  return {
    ...wanted,
    type: wanted.job.type,
    state: "queued",
    stop: null,
    result: "",
    attempts: 0,
    createdAtMs: nowMs,
    startedAtMs: null,
    endedAtMs: null,
  };
}

export function resume(task: Task): Task {
  return { ...task, state: nextState(task, "resume", null), stop: null };
}

/**
 * The events of a task's state machine. take: a worker runs the task. put_back: the task waits for a lock. stop: an
 * operator or a timeout stops the task. heed: the job has ended early because of the stop.
 */
type TaskEvent = "resume" | "take" | "put_back" | "stop" | "succeed" | "fail" | "heed";

/** "stopped" stands for `as` of the task's Stop: "cancelled" or "timeout". */
const TRANSITIONS: Readonly<Record<TaskEvent, Partial<Record<TaskState, TaskState | "stopped">>>> = {
  resume: { held: "queued" },
  // A processing task whose director died is taken again.
  take: { queued: "processing", processing: "processing" },
  put_back: { queued: "queued", processing: "queued" },
  stop: { queued: "stopped", held: "stopped", processing: "cancelling", cancelling: "cancelling" },
  // A job that finishes despite a stop request has succeeded.
  succeed: { queued: "done", processing: "done", cancelling: "done" },
  fail: { queued: "error", processing: "error", cancelling: "error" },
  heed: { cancelling: "stopped" },
};

function nextState(task: Task, event: TaskEvent, stop: Stop | null): TaskState {
  const next = TRANSITIONS[event][task.state];
  if (next === undefined) {
    throw new InvalidStateError(`task ${task.taskId} is ${task.state}: it cannot ${event.replace("_", " ")} any more`, {
      about: { task_id: String(task.taskId) },
    });
  }
  return next === "stopped" ? (stop?.as ?? "cancelled") : next;
}

/**
 * Returns the task as processing. `again` means that this director had taken the task and put it back, which does not
 * count as another attempt.
 */
export function take(task: Task, nowMs: number, { again }: { readonly again: boolean }): Task {
  return {
    ...task,
    state: nextState(task, "take", null),
    attempts: again ? task.attempts : task.attempts + 1,
    startedAtMs: task.startedAtMs ?? nowMs,
  };
}

export function putBack(task: Task): Task {
  return { ...task, state: nextState(task, "put_back", null) };
}

/** Records a stop request; the first request wins. A task without a worker ends at once. */
export function requestStop(task: Task, stop: Stop, nowMs: number): Task {
  const kept = task.stop ?? stop;
  const state = nextState(task, "stop", kept);
  return state === "cancelling"
    ? { ...task, state, stop: kept }
    : ended({ ...task, stop: kept }, state, kept.why, nowMs);
}

/** Returns the task with its job replaced by a more precise job. */
export function redirected(task: Task, job: Job): Task {
  return { ...task, type: job.type, job };
}

export type TaskEnd =
  | { readonly event: "succeed"; readonly result: string; readonly output?: string }
  | {
      readonly event: "fail";
      readonly result: string;
      readonly failure?: TaskFailure | undefined;
      readonly code?: number | undefined;
    }
  /** `unknown` describes a last action whose outcome is unknown. */
  | { readonly event: "heed"; readonly unknown?: string };

export function end(task: Task, how: TaskEnd, nowMs: number): Task {
  const state = nextState(task, how.event, task.stop);
  const failure = how.event === "fail" ? how.failure : undefined;
  const result = how.event === "heed" ? heedText(task, how.unknown) : how.result;
  const output = how.event === "succeed" ? how.output : undefined;
  return ended({ ...task, ...(failure && { failure }), ...(output && { output }) }, state, result, nowMs);
}

function heedText({ stop }: Task, unknown: string | undefined): string {
  return [stop?.why ?? "task cancelled", ...(unknown === undefined ? [] : [unknown])].join("; ");
}

function ended(task: Task, state: TaskState, result: string, nowMs: number): Task {
  const text = result.length > MAX_RESULT_LENGTH ? `${result.slice(0, MAX_RESULT_LENGTH)}...` : result;
  return {
    ...task,
    state,
    result: text,
    job: state !== "done" && isRepeatable(task.job) ? task.job : null,
    endedAtMs: nowMs,
  };
}

const FORMS: ReadonlySet<string> = new Set([
  ...["provide_dynamic_disk", "attach_dynamic_disk", "resize_dynamic_disk", "set_dynamic_disk_limits"],
  ...["detach_dynamic_disk", "delete_dynamic_disk", "undelete_dynamic_disk"],
]);

/**
 * Returns whether the page's form of an action has all parameters of the job, so that a person can retry it with them.
 * Requests within a scope are repeated by their own callers.
 */
export function isRepeatable(job: Job | null): boolean {
  if (job === null || !FORMS.has(job.type)) return false;
  const { scope, metadata, readOnly, limits } = job as Partial<Record<string, unknown>>;
  const hasBurst = ((limits ?? {}) as { readonly burstSeconds?: number }).burstSeconds;
  return scope === undefined && !metadata && !readOnly && !hasBurst;
}

import {
  StepState,
  TaskType,
  type Task as WireTask,
  type TaskEvent as WireTaskEvent,
  TaskQueue as WireTaskQueue,
  TaskState as WireTaskState,
} from "@diskmesh/api/director";
import { ErrorInfo, type Status } from "@diskmesh/api/google-rpc";
import { ERROR_DOMAIN } from "@diskmesh/rpc";
import type { JobType, Task, TaskQueue, TaskState } from "../store/task.js";
import type { TaskEvent } from "./task-event.js";

const TASK_STATES: Readonly<Record<TaskState, WireTaskState>> = {
  queued: WireTaskState.QUEUED,
  processing: WireTaskState.PROCESSING,
  held: WireTaskState.HELD,
  cancelling: WireTaskState.CANCELLING,
  done: WireTaskState.DONE,
  error: WireTaskState.ERROR,
  cancelled: WireTaskState.CANCELLED,
  timeout: WireTaskState.TIMEOUT,
};

const TASK_QUEUES: Readonly<Record<TaskQueue, WireTaskQueue>> = {
  urgent: WireTaskQueue.URGENT,
  normal: WireTaskQueue.NORMAL,
  dynamic_disks: WireTaskQueue.DYNAMIC_DISKS,
  vendor_methods: WireTaskQueue.VENDOR_METHODS,
};

/** Returns the task state; undefined for a wire value that is not a task state. */
export function decodeTaskState(state: WireTaskState): TaskState | undefined {
  return (Object.keys(TASK_STATES) as TaskState[]).find((each) => TASK_STATES[each] === state);
}

export function encodeTask(task: Task): WireTask {
  const { taskId, type, description, result, user, deployment, attempts, contextId = "", teams = [] } = task;
  return {
    taskId,
    type: TaskType[type.toUpperCase() as Uppercase<JobType>],
    description,
    state: TASK_STATES[task.state],
    queue: TASK_QUEUES[task.queue],
    result,
    user,
    deployment,
    attempts,
    contextId,
    teams: [...teams],
    createTime: new Date(task.createdAtMs),
    startTime: task.startedAtMs === null ? undefined : new Date(task.startedAtMs),
    endTime: task.endedAtMs === null ? undefined : new Date(task.endedAtMs),
    error: errorOf(task),
  };
}

// Codes of google.rpc.Code.
const CANCELLED = 1;
const DEADLINE_EXCEEDED = 4;
const INTERNAL = 13;

function errorOf({ state, result: message, failure }: Task): Status | undefined {
  if (state === "cancelled") return { code: CANCELLED, message, details: [] };
  if (state === "timeout") return { code: DEADLINE_EXCEEDED, message, details: [] };
  if (state !== "error") return undefined;
  if (failure === undefined) return { code: INTERNAL, message, details: [] };
  const { reason, about, code } = failure;
  const info = ErrorInfo.encode({ reason, domain: ERROR_DOMAIN, metadata: { ...about } }).finish();
  return {
    code,
    message,
    details: [{ typeUrl: "type.googleapis.com/google.rpc.ErrorInfo", value: Buffer.from(info) }],
  };
}

export function encodeTaskEvent(event: TaskEvent, index: number): WireTaskEvent {
  const { timeMs, stage, tags, total, task, index: stageIndex, state, message, percent = 0 } = event;
  const wireState = StepState[state.toUpperCase() as Uppercase<typeof state>];
  const step = { stage, task, state: wireState, message, tags: [...tags], total, stageIndex, percent };
  return { index, eventTime: new Date(timeMs), ...step };
}

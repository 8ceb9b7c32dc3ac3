import {
  type CancelTaskRequest,
  type CancelTaskResponse,
  type GetTaskOutputRequest,
  type GetTaskOutputResponse,
  type GetTaskRequest,
  type GetTaskResponse,
  type ListTasksRequest,
  type ListTasksResponse,
  type ResumeTaskRequest,
  type ResumeTaskResponse,
  TaskOutputType,
  type WatchTaskRequest,
  type WatchTaskResponse,
} from "@diskmesh/api/director";
import { formatIdentity, InvalidArgumentError, parseOptionalName } from "@diskmesh/domain";
import { type CallContext, LIST_LIMITS, parsePageSize, parsePlace, placeToken } from "@diskmesh/rpc";
import { askerOf, scopeOf, userOf } from "../audit/asker.js";
import type { Deed } from "../audit/director-event.js";
import { taskKey } from "../store/schema.js";
import { hasEnded, type Task, type TaskState } from "../store/task.js";
import type { TaskContext } from "./context.js";
import { parseTaskId } from "./parse.js";
import { taskNotFound } from "./tasks.js";
import { decodeTaskState, encodeTask, encodeTaskEvent } from "./wire.js";

/** Returns the audit deed for an operator's action on a task. */
function deedOnTask(action: string, taskId: number): Deed {
  return { action, objectType: "task", objectName: String(taskId) };
}

export async function cancelTask(
  context: TaskContext,
  request: CancelTaskRequest,
  call: CallContext,
): Promise<CancelTaskResponse> {
  const taskId = parseTaskId(request.taskId);
  const stop = { as: "cancelled", why: `cancelled by ${formatIdentity(call.identity)}` } as const;
  const task = await context.tasks.stop(taskId, stop, (tx, { deployment }) =>
    context.events.note(tx, deedOnTask("cancel", taskId), askerOf(call), { taskId, deployment }),
  );
  return { task: encodeTask(task) };
}

const OUTPUTS = new Map([
  [TaskOutputType.EVENT, "event"],
  [TaskOutputType.RESULT, "result"],
  [TaskOutputType.DEBUG, "debug"],
  [TaskOutputType.CPI, "cpi"],
] as const);

export async function getTaskOutput(
  context: TaskContext,
  request: GetTaskOutputRequest,
  call: Caller,
): Promise<GetTaskOutputResponse> {
  const taskId = parseTaskId(request.taskId);
  const type = parseType(request.type);
  const from = request.fromLine;
  if (from < 0)
    throw new InvalidArgumentError(`from_line is ${from}: it must not be negative`, {
      about: { field: "from_line" },
    });
  const limit = parsePageSize(request.maxLines, LIST_LIMITS, "max_lines");
  // The task is read before its lines. If the task has ended, all lines of its work are already stored.
  const task = await seenTask(context, taskId, call);
  const ended = hasEnded(task);
  const putOut = await context.taskLog.readLines(task, type, from, limit);
  // Most kinds of tasks write no result lines; their only result is the result text.
  const hasOwn = type !== "result" || putOut.length > 0 || from > 0;
  const { output = task.result } = task;
  const lines = hasOwn || !ended || output === "" ? putOut : [output];
  return { lines, nextLine: from + lines.length, complete: ended && lines.length < limit };
}

function parseType(value: TaskOutputType) {
  const type = OUTPUTS.get(value as Parameters<typeof OUTPUTS.get>[0]);
  if (type !== undefined) return type;
  throw new InvalidArgumentError(`type ${value} is not known: give one of ${[...OUTPUTS.keys()].join(", ")}`, {
    about: { field: "type" },
  });
}

export async function getTask(context: TaskContext, request: GetTaskRequest, call: Caller): Promise<GetTaskResponse> {
  return { task: encodeTask(await seenTask(context, parseTaskId(request.taskId), call)) };
}

type Caller = Pick<CallContext, "identity" | "teams">;

/** Returns the task; throws NotFoundError for a task outside of the caller's scope, as for one that does not exist. */
async function seenTask(context: TaskContext, taskId: number, call: Caller): Promise<Task> {
  const task = await context.tasks.get(taskId);
  return isSeen(task, call) ? task : taskNotFound(taskId);
}

/** Returns true for tasks of the teams at which the caller's rights end, and for the caller's own tasks. */
function isSeen({ user, teams = [] }: Task, call: Caller): boolean {
  const scope = scopeOf(call);
  if (scope === undefined || user === userOf(call)) return true;
  return "teams" in scope && teams.some((team) => scope.teams.includes(team));
}

/** Pages by descending task id. Ids only grow, so a page continues below the last task of the page before. */
export async function listTasks(
  context: TaskContext,
  request: ListTasksRequest,
  call: Caller,
): Promise<ListTasksResponse> {
  const states = new Set(request.states.map(parseState));
  const deployment = parseOptionalName("deployment", request.deployment);
  const size = parsePageSize(request.pageSize, LIST_LIMITS);
  const { pageSize, pageToken, ...filters } = request;
  const after = pageToken === "" ? "" : parsePlace(pageToken, filters);
  const matches = (task: Task): boolean =>
    (states.size === 0 || states.has(task.state)) && (deployment === undefined || task.deployment === deployment);

  // The tablet is read before the log. Tasks move only from the tablet into the log, so a task that moves between the
  // two reads is not missed.
  const { here, ids } = await context.tablet.read(({ tasks }) => {
    const all = [
      ...(deployment === undefined ? tasks.entries({ after }) : tasks.by("byDeployment", deployment, { after })),
    ];
    return { here: all.filter(matches), ids: new Set(all.map(({ taskId }) => taskId)) };
  });
  const options = { after, limit: size + 1 };
  const putAway = await context.endedTasks.page({ states, deployment }, options);
  // The log was read only down to `end`, so older tasks are left to the next page.
  const end = putAway.length === options.limit ? (putAway.at(-1)?.taskId ?? 0) : 0;
  const seen = [...here, ...putAway.filter(({ taskId }) => !ids.has(taskId))].filter(({ taskId }) => taskId >= end);
  const tasks = seen.sort((a, b) => b.taskId - a.taskId).slice(0, size);
  const last = tasks.length === size ? (tasks.at(-1)?.taskId ?? 0) : end;
  const isMore = end > 0 || seen.length > size;
  const shown = tasks.filter((task) => isSeen(task, call));
  return { tasks: shown.map(encodeTask), nextPageToken: isMore ? placeToken(taskKey(last), filters) : "" };
}

function parseState(value: Parameters<typeof decodeTaskState>[0]): TaskState {
  const state = decodeTaskState(value);
  if (state === undefined)
    throw new InvalidArgumentError(`${value} is not a task state`, { about: { field: "states" } });
  return state;
}

export async function resumeTask(
  { tasks, events }: TaskContext,
  request: ResumeTaskRequest,
  call: CallContext,
): Promise<ResumeTaskResponse> {
  const taskId = parseTaskId(request.taskId);
  const task = await tasks.resume(taskId, (tx, { deployment }) =>
    events.note(tx, deedOnTask("resume", taskId), askerOf(call), { taskId, deployment }),
  );
  return { task: encodeTask(task) };
}

/** Maximum events in a read for a watcher, which bounds the memory that a slow watcher holds. */
const EVENTS_PER_READ = 100;

export function watchTask(
  context: TaskContext,
  request: WatchTaskRequest,
  call: CallContext,
): AsyncIterable<WatchTaskResponse> {
  return updatesOf(context, request, call);
}

async function* updatesOf(
  context: TaskContext,
  request: { readonly taskId: number; readonly fromIndex: number },
  call: CallContext,
): AsyncGenerator<WatchTaskResponse> {
  const taskId = parseTaskId(request.taskId);
  let index = request.fromIndex;
  if (index < 0)
    throw new InvalidArgumentError(`from_index is ${index}: it must not be negative`, {
      about: { field: "from_index" },
    });
  using watch = context.changes.watch(taskId);
  for (;;) {
    // The task is read before its events. If the task has ended, all its events are already stored.
    const task = await seenTask(context, taskId, call);
    const events = await context.taskLog.read(task, index, EVENTS_PER_READ);
    for (const event of events) yield { update: { $case: "event", value: encodeTaskEvent(event, index++) } };
    if (events.length === EVENTS_PER_READ) continue;
    if (hasEnded(task)) {
      yield { update: { $case: "ended", value: encodeTask(task) } };
      return;
    }
    await watch.changed(call.signal);
  }
}

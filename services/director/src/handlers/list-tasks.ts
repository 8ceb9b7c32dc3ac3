import type { ListTasksRequest, ListTasksResponse } from "@diskmesh/api/director";
import { InvalidArgumentError, parseOptionalName } from "@diskmesh/domain";
import { LIST_LIMITS, parsePageSize, parsePlace, placeToken } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { taskKey } from "../model/schema.js";
import type { Task, TaskState } from "../model/task.js";
import { decodeTaskState, encodeTask } from "../wire.js";

/** Ids only go up, so a page is all that is below the last task of the page before. */
export async function listTasks(context: TaskContext, request: ListTasksRequest): Promise<ListTasksResponse> {
  const states = new Set(request.states.map(parseState));
  const deployment = parseOptionalName("deployment", request.deployment);
  const size = parsePageSize(request.pageSize, LIST_LIMITS);
  const { pageSize, pageToken, ...filters } = request;
  const after = pageToken === "" ? "" : parsePlace(pageToken, filters);
  const matches = (task: Task): boolean =>
    (states.size === 0 || states.has(task.state)) && (deployment === undefined || task.deployment === deployment);

  // First the tablet: a task is put away into the log, and never taken out again.
  const { here, ids } = await context.tablet.read(({ tasks }) => {
    const all = [
      ...(deployment === undefined ? tasks.entries({ after }) : tasks.by("byDeployment", deployment, { after })),
    ];
    return { here: all.filter(matches), ids: new Set(all.map(({ taskId }) => taskId)) };
  });
  const options = { after, limit: size + 1 };
  const putAway = await context.endedTasks.page({ states, deployment }, options);
  // What is beyond the last one that was read of the log is for the next page.
  const end = putAway.length === options.limit ? (putAway.at(-1)?.taskId ?? 0) : 0;
  const seen = [...here, ...putAway.filter(({ taskId }) => !ids.has(taskId))].filter(({ taskId }) => taskId >= end);
  const tasks = seen.sort((a, b) => b.taskId - a.taskId).slice(0, size);
  const last = tasks.length === size ? (tasks.at(-1)?.taskId ?? 0) : end;
  const isMore = end > 0 || seen.length > size;
  return { tasks: tasks.map(encodeTask), nextPageToken: isMore ? placeToken(taskKey(last), filters) : "" };
}

function parseState(value: Parameters<typeof decodeTaskState>[0]): TaskState {
  const state = decodeTaskState(value);
  if (state === undefined)
    throw new InvalidArgumentError(`${value} is no state of a task`, { about: { field: "states" } });
  return state;
}

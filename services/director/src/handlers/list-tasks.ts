import type { ListTasksRequest, ListTasksResponse } from "@diskmesh/api/director";
import { InvalidArgumentError, parseOptionalName } from "@diskmesh/domain";
import { parsePage, takePage } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { taskKey } from "../model/schema.js";
import type { Task, TaskState } from "../model/task.js";
import { decodeTaskState, encodeTask } from "../wire.js";

export async function listTasks(context: Context, request: ListTasksRequest): Promise<ListTasksResponse> {
  const states = new Set(request.states.map(parseState));
  const deployment = parseOptionalName("deployment", request.deployment);
  const { paging } = context.config;
  const page = parsePage(request, paging, requireTaskKey);
  const matches = (task: Task) => states.size === 0 || states.has(task.state);
  const { items, nextPageToken } = await context.tablet.read(({ tasks }) => {
    const newestFirst = deployment === undefined ? tasks.entries(page) : tasks.by("byDeployment", deployment, page);
    return takePage(newestFirst, (task) => taskKey(task.taskId), page, paging, matches);
  });
  return { tasks: items.map(encodeTask), nextPageToken };
}

function parseState(value: Parameters<typeof decodeTaskState>[0]): TaskState {
  const state = decodeTaskState(value);
  if (state === undefined)
    throw new InvalidArgumentError(`${value} is no state of a task`, { about: { field: "states" } });
  return state;
}

function requireTaskKey(key: string): void {
  if (!/^\d{1,16}$/.test(key)) throw new InvalidArgumentError("no task has such a key");
}

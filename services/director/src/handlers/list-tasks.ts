import type { ListTasksRequest, ListTasksResponse } from "@diskmesh/api/director";
import { InvalidArgumentError, parseOptionalName, quoted } from "@diskmesh/domain";
import type { Context } from "../context.js";
import type { Task, TaskState } from "../model/task.js";
import { taskKey } from "../schema.js";
import { decodeTaskState, encodeTask } from "../wire.js";
import { pageOf, parsePageSize } from "./parse.js";

export async function listTasks(context: Context, request: ListTasksRequest): Promise<ListTasksResponse> {
  const states = new Set(request.states.map(parseState));
  const deployment = parseOptionalName("deployment", request.deployment);
  const size = parsePageSize(context, request.pageSize);
  const after = parsePageToken(request.pageToken);
  const read = await context.tablet.read(({ tasks }) => {
    const newestFirst =
      deployment === undefined ? tasks.entries({ after }) : tasks.by("byDeployment", deployment, { after });
    const found: Task[] = [];
    for (const task of newestFirst) {
      if (states.size === 0 || states.has(task.state)) found.push(task);
      if (found.length > size) break;
    }
    return found;
  });
  const { items, nextPageToken } = pageOf(read, size, (task) => String(task.taskId));
  return { tasks: items.map(encodeTask), nextPageToken };
}

function parseState(value: Parameters<typeof decodeTaskState>[0]): TaskState {
  const state = decodeTaskState(value);
  if (state === undefined)
    throw new InvalidArgumentError(`${value} is no state of a task`, { about: { field: "states" } });
  return state;
}

function parsePageToken(token: string): string | undefined {
  if (token === "") return undefined;
  const taskId = /^[1-9][0-9]{0,15}$/.test(token) ? Number(token) : Number.NaN;
  if (Number.isSafeInteger(taskId)) return taskKey(taskId);
  throw new InvalidArgumentError(`page_token ${quoted(token)} is none of ours`, { about: { field: "page_token" } });
}

import type { ListTasksRequest, ListTasksResponse } from "@diskmesh/api/director";
import { InvalidArgumentError, parseOptionalName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { taskKey } from "../model/schema.js";
import type { TaskState } from "../model/task.js";
import { decodeTaskState, encodeTask } from "../wire.js";

export async function listTasks(
  { lists }: Context,
  request: ListTasksRequest,
  call: CallContext,
): Promise<ListTasksResponse> {
  const states = new Set(request.states.map(parseState));
  const deployment = parseOptionalName("deployment", request.deployment);
  const { items, nextPageToken } = await lists.page(request, call, {
    what: "tasks",
    // Keys are such that the newest come first.
    begin: ({ tasks }) => (deployment === undefined ? tasks.snapshot() : tasks.snapshot("byDeployment", deployment)),
    keyOf: (task) => taskKey(task.taskId),
    matches: (task) => states.size === 0 || states.has(task.state),
    describe: (_, task) => encodeTask(task),
  });
  return { tasks: [...items], nextPageToken };
}

function parseState(value: Parameters<typeof decodeTaskState>[0]): TaskState {
  const state = decodeTaskState(value);
  if (state === undefined)
    throw new InvalidArgumentError(`${value} is no state of a task`, { about: { field: "states" } });
  return state;
}

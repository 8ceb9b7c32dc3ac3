import type { Task, TaskState } from "@diskmesh/api/director";
import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { type Operation, POLICY, type Rule } from "../../config/policy.js";
import { cancelTask, getTask, listTasks } from "../../tasks/handlers.js";
import { empty, json, jsonList, text } from "../answer.js";
import { bodyObject } from "../body.js";
import { BadRequestError } from "../http-error.js";
import { firstOf, limitOf, pagesOf } from "../pages.js";
import type { HttpCall, Route } from "../route.js";
import { outputAnswer } from "./task-output.js";
import { statesNamed, taskObject } from "./task-text.js";

const OUTPUT_OPERATIONS: ReadonlyMap<string, Operation> = new Map([
  ["event", "getTaskOutput"],
  ["result", "getTaskOutput"],
  ["none", "getTaskOutput"],
  ["debug", "getTaskDebugOutput"],
  ["cpi", "getTaskDebugOutput"],
]);

/** Background tasks, which are listed only for a request with verbose=2. */
const IN_PASSING = /^TASK_TYPE_(SETTLE_OWED_REMOVALS|RENEW_AGENT_CERTIFICATES|RETRIEVE_VM_STATS|\w+_DYNAMIC_DISK)$/;

export const taskRoutes: readonly Route[] = [
  {
    method: "GET",
    path: "/tasks",
    operation: "listTasks",
    teams: "own",
    serve: async (http) => {
      const { query } = http;
      const states = statesNamed(
        query
          .getAll("state")
          .flatMap((names) => names.split(","))
          .filter(Boolean),
      );
      const all = query.get("verbose") === "2";
      const deployment = query.get("deployment") ?? "";
      const asked = query.get("context_id") ?? "";
      const isAsked = ({ type, contextId }: Task): boolean =>
        asked === "" ? all || !IN_PASSING.test(type) : contextId === asked;
      const matches = (task: Task): boolean => isAsked(task) && http.may("listTasks", task.teams);
      const tasks = tasksOf(http, states, deployment, matches);
      return jsonList(firstOf(tasks, limitOf(query.get("limit"))));
    },
  },
  {
    method: "GET",
    path: "/tasks/:id",
    operation: undefined,
    serve: async (http) => json(taskObject(await seenTask(http, "getTask"))),
  },
  {
    method: "GET",
    path: "/tasks/:id/output",
    operation: undefined,
    serve: async (http) => {
      const type = http.query.get("type") ?? "debug";
      const operation = OUTPUT_OPERATIONS.get(type);
      if (operation === undefined) throw new BadRequestError("type must be one of event, result, debug, cpi, none");
      const { taskId } = await seenTask(http, operation);
      if (type === "none") return text("");
      return outputAnswer(http, { taskId, type });
    },
  },
  { method: "DELETE", path: "/task/:id", operation: "cancelTask", teams: "own", serve: (http) => cancelOne(http) },
  {
    method: "POST",
    path: "/tasks/cancel",
    operation: "cancelTask",
    teams: "own",
    serve: async (http) => {
      const body = bodyObject(http.request);
      const states = body.optionalTexts("states") ?? ["queued"];
      if (states.some((state) => state !== "queued" && state !== "processing"))
        throw new BadRequestError("states must be queued, processing, or both");
      const types = body.optionalTexts("types");
      const deployment = body.optionalText("deployment") ?? "";
      const wanted = ({ type, teams }: Task): boolean =>
        (types === undefined || types.includes(type)) && http.may("cancelTask", teams);
      for await (const tasks of tasksOf(http, statesNamed(states), deployment, wanted)) {
        for (const id of tasks.map((task) => (task as { readonly id: number }).id)) await cancelUnlessEnded(http, id);
      }
      return empty(204);
    },
  },
];

function tasksOf(
  { context, call }: HttpCall,
  states: TaskState[],
  deployment: string,
  matches: (task: Task) => boolean,
): AsyncGenerator<readonly object[]> {
  return pagesOf(
    (page) => listTasks(context, { ...page, states, deployment }, call),
    ({ tasks }) => tasks.filter(matches).map(taskObject),
  );
}

/**
 * Returns the task if the login may see it for the operation. Without permission the error does not reveal whether the
 * task exists.
 */
export async function seenTask(http: HttpCall, operation: Operation): Promise<Task> {
  const { task } = await getTask(http.context, { taskId: taskIdOf(http) }, http.call).catch((error: unknown) => {
    if (error instanceof NotFoundError) http.require(operation, []);
    throw error;
  });
  if (task === undefined) throw new TypeError("a task that was found is missing");
  const rule: Rule = POLICY[operation];
  const isCreator = rule.creator === true && task.user === http.login.name;
  if (!isCreator) http.require(operation, task.teams);
  return task;
}

function taskIdOf(http: HttpCall): number {
  const text = http.param("id");
  if (/^[1-9]\d{0,14}$/.test(text)) return Number(text);
  throw new NotFoundError("a task id is a number of at least 1", { about: { task_id: text.slice(0, 64) } });
}

async function cancelOne(http: HttpCall) {
  const { taskId } = await seenTask(http, "cancelTask");
  try {
    await cancelTask(http.context, { taskId }, http.call);
    return empty(204);
  } catch (error) {
    if (!(error instanceof InvalidStateError)) throw error;
    return text(`Cannot cancel task ${taskId}: ${error.message}\n`, 400);
  }
}

async function cancelUnlessEnded({ context, call }: HttpCall, taskId: number): Promise<void> {
  try {
    await cancelTask(context, { taskId }, call);
  } catch (error) {
    if (!(error instanceof InvalidStateError || error instanceof NotFoundError)) throw error;
  }
}

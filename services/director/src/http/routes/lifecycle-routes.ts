import type { Operation } from "../../config/policy.js";
import { deploymentTasks } from "../../deployments/handlers.js";
import { ignore, unignore } from "../../instances/handlers.js";
import { CODES } from "../../tasks/bosh-codes.js";
import { type Answer, empty } from "../answer.js";
import { bodyObject } from "../body.js";
import { BadRequestError } from "../http-error.js";
import type { HttpCall, Route } from "../route.js";
import { startTask } from "./start-task.js";
import { refuseOptions, updateOptionsOf } from "./update-options.js";

type Verb = "start" | "stop" | "restart" | "recreate";

/** BOSH's names of the target states. */
const VERBS: ReadonlyMap<string, Verb> = new Map([
  ["started", "start"],
  ["stopped", "stop"],
  ["detached", "stop"],
  ["restart", "restart"],
  ["recreate", "recreate"],
]);

const OPERATIONS: Readonly<Record<Verb, Operation>> = {
  start: "startInstances",
  stop: "stopInstances",
  restart: "restartInstances",
  recreate: "recreateInstances",
};

const UNKNOWN_OPTIONS = ["recreate_vms_created_before", "force"];

/** Routes to stop, start, restart and recreate a deployment, a group or an instance. */
export const lifecycleRoutes: readonly Route[] = [
  ...["/deployments/:deployment/jobs/:group", "/deployments/:deployment/jobs/:group/:instance"].map(
    (path): Route => ({
      method: "PUT",
      path,
      // Every verb needs the same scopes. The verb's own operation is checked below.
      operation: "recreateInstances",
      serve: async (http) => {
        const state = http.query.get("state") ?? "";
        const verb = VERBS.get(state);
        if (verb === undefined)
          throw new BadRequestError("state must be one of started, stopped, detached, restart, recreate");
        http.require(OPERATIONS[verb]);
        return change(http, verb, { fix: http.query.get("fix") === "true", hard: state === "detached" });
      },
    }),
  ),
  ...(["start", "stop", "restart", "recreate"] as const).map(
    (verb): Route => ({
      method: "POST",
      path: `/deployments/:deployment/instance_groups/:group/:instance/actions/${verb}`,
      operation: OPERATIONS[verb],
      serve: async (http) => {
        const fix = http.query.get("ignore_unresponsive_agent") === "true";
        return change(http, verb, { fix, hard: http.query.get("hard") === "true" });
      },
    }),
  ),
  {
    method: "PUT",
    path: "/deployments/:deployment/instance_groups/:group/:instance/ignore",
    operation: "ignoreInstances",
    serve: async (http) => {
      const wanted = bodyObject(http.request).flag("ignore");
      const selection = selectionOf(http);
      if (selection.instance === "") throw new BadRequestError("name exactly one instance", CODES.instanceNotFound);
      await (wanted
        ? ignore(http.context, { selection }, http.call)
        : unignore(http.context, { selection }, http.call));
      return empty(200);
    },
  },
];

async function change(
  http: HttpCall,
  verb: Verb,
  { fix, hard }: { readonly fix: boolean; readonly hard: boolean },
): Promise<Answer> {
  refuseOptions(http, UNKNOWN_OPTIONS);
  const request = { selection: selectionOf(http), options: updateOptionsOf(http) };
  if (verb === "recreate") return startTask(http, deploymentTasks.recreate, request);
  if (verb === "stop") return startTask(http, deploymentTasks.stop, { ...request, fix, hard });
  return startTask(http, deploymentTasks[verb], { ...request, fix });
}

/** The index of an instance in its group, or its id. */
const INSTANCE = /^(\*?|\d{1,9}|[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12})$/i;

/** Returns the selection in the path. */
export function selectionOf({ param }: HttpCall) {
  const [group = "", instance = ""] = ["group", "instance"].map((name) => (param(name) === "*" ? "" : param(name)));
  if (!INSTANCE.test(instance))
    throw new BadRequestError("name an instance by its number in its group, or by its id", CODES.badInstanceIndex);
  return { deployment: param("deployment"), group, instance };
}

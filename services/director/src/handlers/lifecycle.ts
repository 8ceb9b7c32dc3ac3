import type {
  InstanceSelection,
  InstanceUpdateOptions,
  RecreateRequest,
  RecreateResponse,
  RestartRequest,
  RestartResponse,
  StartRequest,
  StartResponse,
  StopRequest,
  StopResponse,
  Task,
} from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { changeable, selectInstances, type WantedState } from "../model/lifecycle.js";
import { instancesOf, refuseUnlessOpen } from "../model/recorded-deployments.js";
import { encodeTask } from "../wire.js";
import { parseSelection, parseUpdateOptions } from "./parse.js";
import { startTask } from "./start-task.js";

export async function stop(context: Context, request: StopRequest, call: CallContext): Promise<StopResponse> {
  return { task: await change(context, call, { ...request, wanted: request.hard ? "detached" : "stopped" }) };
}

export async function start(context: Context, request: StartRequest, call: CallContext): Promise<StartResponse> {
  return { task: await change(context, call, { ...request, wanted: "started" }) };
}

export async function restart(context: Context, request: RestartRequest, call: CallContext): Promise<RestartResponse> {
  return { task: await change(context, call, { ...request, wanted: "restart" }) };
}

export async function recreate(
  context: Context,
  request: RecreateRequest,
  call: CallContext,
): Promise<RecreateResponse> {
  return { task: await change(context, call, { ...request, wanted: "recreate", fix: true }) };
}

interface WantedChange {
  readonly selection: InstanceSelection | undefined;
  readonly options: InstanceUpdateOptions | undefined;
  readonly wanted: WantedState;
  readonly fix: boolean;
  readonly wait: boolean;
}

const VERBS: Readonly<Record<WantedState, string>> = {
  started: "start",
  stopped: "stop",
  detached: "stop, and delete the vm of,",
  restart: "restart",
  recreate: "recreate",
};

async function change(context: Context, call: CallContext, request: WantedChange): Promise<Task> {
  const { deployment, ...selection } = parseSelection(request.selection);
  const options = parseUpdateOptions(request.options);
  const { wanted, fix } = request;
  const place = [deployment, selection.group, selection.instance].filter((part) => part !== "").join("/");
  const task = await startTask(context, call, request.wait, {
    job: { type: "update_instances", deployment, selection, wanted, fix, ...options },
    queue: "normal",
    description: `${VERBS[wanted]} \`${place}\`${options.dryRun ? " (dry run)" : ""}`,
    deployment: () => deployment,
    check: (tables) => {
      refuseUnlessOpen(tables, deployment);
      changeable(selectInstances(instancesOf(tables, deployment), selection), selection);
    },
  });
  return encodeTask(task);
}

import type {
  DeploymentServiceDefinition,
  DeployRequest,
  InstanceSelection,
  InstanceUpdateOptions,
  LifecycleServiceDefinition,
  ListDeploymentsRequest,
  ListDeploymentsResponse,
} from "@diskmesh/api/director";
import { parseName } from "@diskmesh/domain";
import { type CallContext, type Handlers, pageOf, type Serve } from "@diskmesh/rpc";
import { scopeOf } from "../audit/asker.js";
import type { ConfigContext } from "../configs/context.js";
import { changeable, selectInstances } from "../instances/lifecycle.js";
import {
  instancesOf,
  refuseIgnoredInstances,
  refuseOtherTeams,
  refuseUnlessOpen,
} from "../instances/recorded-deployments.js";
import { coversDeployment, rowsIn } from "../instances/scope.js";
import type { WantedState } from "../store/task.js";
import type { TaskContext } from "../tasks/context.js";
import { parseSelection, parseUpdateOptions, placeOf } from "../tasks/parse.js";
import { type TaskMethod, taskMethod } from "../tasks/task-method.js";
import { checkManifest } from "./manifest-check.js";
import { encodeDeployment } from "./wire.js";

type Service = Handlers<typeof DeploymentServiceDefinition> & Handlers<typeof LifecycleServiceDefinition>;
type Name = "deploy" | "deleteDeployment" | "stop" | "start" | "restart" | "recreate";

/** Methods that start a task on a deployment or its instances. */
export const deploymentTasks: { readonly [Method in Name]: Serve<ConfigContext, Service[Method]> } = {
  deploy: deployBy([]),
  deleteDeployment: taskMethod("normal", ({ force, ...request }) => {
    const deployment = parseName("deployment", request.deployment);
    return {
      job: { type: "delete_deployment", deployment, force },
      description: `delete deployment \`${deployment}\``,
      deployment,
      check: (tables) => refuseIgnoredInstances(tables, deployment),
    };
  }),
  stop: changeTo(({ hard }) => (hard ? "detached" : "stopped")),
  start: changeTo(() => "started"),
  restart: changeTo(() => "restart"),
  recreate: changeTo(() => "recreate"),
};

/** Returns the deploy method for members of the given teams, or for an administrator when `teams` is empty. */
export function deployBy(teams: readonly string[]): TaskMethod<DeployRequest, ConfigContext> {
  const ofTeams = teams.length === 0 ? {} : { teams };
  return taskMethod("normal", async (request, context, { signal }) => {
    const manifest = await context.configs.manifests.accept(request.manifest, signal);
    const { name } = manifest;
    const options = { ...parseUpdateOptions(request.options), recreate: request.recreate };
    return {
      job: { type: "update_deployment", deployment: name, manifest: request.manifest, options, ...ofTeams },
      description: `create deployment \`${name}\`${options.dryRun ? " (dry run)" : ""}`,
      deployment: name,
      // The job repeats the check, because cloud configs may change before the job runs.
      check: (tables) => {
        refuseOtherTeams(tables, name, teams);
        checkManifest(context.configs, tables, manifest);
      },
    };
  });
}

interface ChangeRequest {
  selection?: InstanceSelection | undefined;
  options?: InstanceUpdateOptions | undefined;
  /** Undefined for a recreate, which always recreates VMs whose agents do not answer. */
  fix?: boolean;
  wait: boolean;
}

const VERBS: Readonly<Record<WantedState, string>> = {
  started: "start",
  stopped: "stop",
  detached: "stop, and delete the vm of,",
  restart: "restart",
  recreate: "recreate",
};

function changeTo<Request extends ChangeRequest>(wantedBy: (request: Request) => WantedState): TaskMethod<Request> {
  return taskMethod("normal", (request) => {
    const { deployment, ...selection } = parseSelection(request.selection);
    const options = parseUpdateOptions(request.options);
    const { fix = true } = request;
    const wanted = wantedBy(request);
    const place = placeOf({ deployment, ...selection });
    return {
      job: { type: "update_instances", deployment, selection, wanted, fix, ...options },
      description: `${VERBS[wanted]} \`${place}\`${options.dryRun ? " (dry run)" : ""}`,
      deployment,
      check: (tables) => {
        refuseUnlessOpen(tables, deployment);
        changeable(selectInstances(instancesOf(tables, deployment), selection), selection);
      },
    };
  });
}

export async function listDeployments(
  { tablet }: TaskContext,
  request: ListDeploymentsRequest,
  call: Pick<CallContext, "identity" | "teams">,
): Promise<ListDeploymentsResponse> {
  const scope = scopeOf(call);
  const { items, nextPageToken } = await pageOf(tablet, request, {
    what: "deployments",
    rows: (tables, from) =>
      rowsIn(scope, tables.deployments.entries(from), ({ name }) => coversDeployment(scope, tables, name)),
    keyOf: (deployment) => deployment.name,
    describe: (_, deployment) => encodeDeployment(deployment),
  });
  return { deployments: [...items], nextPageToken };
}

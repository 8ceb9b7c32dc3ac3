import { parseName } from "@diskmesh/domain";
import { ipsOf } from "../../instances/bosh-instance.js";
import { instancesOf, requireDeployment } from "../../instances/recorded-deployments.js";
import { vmCreatedAt } from "../../instances/wire.js";
import { type Answer, jsonList, toTask } from "../answer.js";
import { partsOf } from "../pages.js";
import type { HttpCall, Route } from "../route.js";

/**
 * Lists VMs, or instances with or without VMs. The default format is answered from the records; format=full starts a
 * task that calls the agents.
 */
export const instanceRoutes: readonly Route[] = (["vms", "instances"] as const).map((what) => ({
  method: "GET",
  path: `/deployments/:deployment/${what}`,
  operation: "listInstances",
  serve: (http) => (http.query.get("format") === "full" ? full(http, what) : recorded(http, what)),
}));

async function full(http: HttpCall, what: "vms" | "instances"): Promise<Answer> {
  const { context, call } = http;
  const deployment = await known(http);
  const { taskId } = await context.tasks.start(call, {
    job: { type: "retrieve_vm_stats", deployment, withoutVm: what === "instances" },
    queue: "urgent",
    description: "retrieve vm-stats",
    deployment,
  });
  return toTask(taskId);
}

async function recorded(http: HttpCall, what: "vms" | "instances"): Promise<Answer> {
  const deployment = await known(http);
  const instances = await http.context.tablet.read((tables) => instancesOf(tables, deployment));
  const wanted = instances.filter(({ vmCid }) => what === "instances" || vmCid !== "");
  return jsonList(
    partsOf(wanted, (instance) => ({
      agent_id: instance.agentId,
      cid: instance.vmCid === "" ? null : instance.vmCid,
      job: instance.group,
      index: instance.index,
      id: instance.instanceId,
      az: instance.az,
      ips: ipsOf(instance),
      vm_created_at: vmCreatedAt(instance),
      ...(what === "vms" ? { active: true, permanent_nats_credentials: false } : { expects_vm: !instance.leaving }),
    })),
  );
}

/** Returns the deployment's name; throws NotFoundError when the deployment does not exist. */
async function known({ context, param }: HttpCall): Promise<string> {
  const deployment = parseName("deployment", param("deployment"));
  await context.tablet.read((tables) => requireDeployment(tables, deployment));
  return deployment;
}

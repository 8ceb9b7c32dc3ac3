import type { ListInstancesRequest, ListInstancesResponse } from "@diskmesh/api/director";
import { parseName } from "@diskmesh/domain";
import type { InstanceContext } from "../context.js";
import type { Instance } from "../model/instance.js";
import { instancesOf, requireDeployment } from "../model/recorded-deployments.js";
import { encodeInstance } from "../wire.js";

export async function listInstances(
  context: InstanceContext,
  request: ListInstancesRequest,
): Promise<ListInstancesResponse> {
  const deployment = parseName("deployment", request.deployment);
  const instances = await context.tablet.read((tables) => {
    requireDeployment(tables, deployment);
    return instancesOf(tables, deployment);
  });
  const shown = ({ agentId }: Instance) =>
    request.agentHealth && agentId !== "" ? context.agentHealths.shown(agentId) : undefined;
  return { instances: instances.map((instance) => encodeInstance(instance, shown(instance))) };
}

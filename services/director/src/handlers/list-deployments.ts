import type { ListDeploymentsRequest, ListDeploymentsResponse } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { encodeDeployment } from "../wire.js";

export async function listDeployments(
  { lists }: TaskContext,
  request: ListDeploymentsRequest,
  call: CallContext,
): Promise<ListDeploymentsResponse> {
  const { items, nextPageToken } = await lists.page(request, call, {
    what: "deployments",
    begin: ({ deployments }) => deployments.snapshot(),
    keyOf: (deployment) => deployment.name,
    describe: (_, deployment) => encodeDeployment(deployment),
  });
  return { deployments: [...items], nextPageToken };
}

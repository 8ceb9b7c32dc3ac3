import type { ListDeploymentsRequest, ListDeploymentsResponse } from "@diskmesh/api/director";
import { parseName } from "@diskmesh/domain";
import { parsePage, takePage } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeDeployment } from "../wire.js";

export async function listDeployments(
  context: Context,
  request: ListDeploymentsRequest,
): Promise<ListDeploymentsResponse> {
  const { paging } = context.config;
  const page = parsePage(request, paging, (key) => parseName("page_token", key));
  const { items, nextPageToken } = await context.tablet.read(({ deployments }) =>
    takePage(deployments.entries(page), (deployment) => deployment.name, page, paging),
  );
  return { deployments: items.map(encodeDeployment), nextPageToken };
}

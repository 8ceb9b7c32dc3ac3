import type { ListDeploymentsRequest, ListDeploymentsResponse } from "@diskmesh/api/director";
import { parseOptionalName } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { encodeDeployment } from "../wire.js";
import { pageOf, parsePageSize } from "./parse.js";

export async function listDeployments(
  context: Context,
  request: ListDeploymentsRequest,
): Promise<ListDeploymentsResponse> {
  const size = parsePageSize(context, request.pageSize);
  const after = parseOptionalName("page_token", request.pageToken);
  const read = await context.tablet.read(({ deployments }) => [...deployments.entries({ after, limit: size + 1 })]);
  const { items, nextPageToken } = pageOf(read, size, (deployment) => deployment.name);
  return { deployments: items.map(encodeDeployment), nextPageToken };
}

import type { ListPossibleOrphansRequest, ListPossibleOrphansResponse } from "@diskmesh/api/director";
import { parseName } from "@diskmesh/domain";
import { parsePage, takePage } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodePossibleOrphan } from "../wire.js";

export async function listPossibleOrphans(
  context: Context,
  request: ListPossibleOrphansRequest,
): Promise<ListPossibleOrphansResponse> {
  const { paging } = context.config;
  const page = parsePage(request, paging, (key) => parseName("page_token", key));
  const { items, nextPageToken } = await context.tablet.read(({ possibleOrphans }) =>
    takePage(possibleOrphans.entries(page), (orphan) => orphan.token, page, paging),
  );
  return { possibleOrphans: items.map(encodePossibleOrphan), nextPageToken };
}

import type { ListPossibleOrphansRequest, ListPossibleOrphansResponse } from "@diskmesh/api/director";
import { parseOptionalName } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { encodePossibleOrphan } from "../wire.js";
import { pageOf, parsePageSize } from "./parse.js";

export async function listPossibleOrphans(
  context: Context,
  request: ListPossibleOrphansRequest,
): Promise<ListPossibleOrphansResponse> {
  const size = parsePageSize(context, request.pageSize);
  const after = parseOptionalName("page_token", request.pageToken);
  const read = await context.tablet.read(({ possibleOrphans }) => [
    ...possibleOrphans.entries({ after, limit: size + 1 }),
  ]);
  const { items, nextPageToken } = pageOf(read, size, (orphan) => orphan.token);
  return { possibleOrphans: items.map(encodePossibleOrphan), nextPageToken };
}

import type { ListStemcellsRequest, ListStemcellsResponse } from "@diskmesh/api/director";
import { InvalidArgumentError } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { deploymentsWith } from "../jobs/delete-stemcell.js";
import { stemcellKey } from "../schema.js";
import { encodeStemcell } from "../wire.js";
import { pageOf, parsePageSize } from "./parse.js";

const MAX_TOKEN_LENGTH = 1_000;

export async function listStemcells(context: Context, request: ListStemcellsRequest): Promise<ListStemcellsResponse> {
  const size = parsePageSize(context, request.pageSize);
  if (request.pageToken.length > MAX_TOKEN_LENGTH)
    throw new InvalidArgumentError("page_token is none of ours", { about: { field: "page_token" } });
  const after = request.pageToken === "" ? undefined : request.pageToken;
  const read = await context.tablet.read((tables) =>
    [...tables.stemcells.entries({ after, limit: size + 1 })].map((stemcell) => ({
      stemcell,
      deployments: deploymentsWith(tables, stemcell),
    })),
  );
  const { items, nextPageToken } = pageOf(read, size, ({ stemcell }) => stemcellKey(stemcell));
  return {
    stemcells: items.map(({ stemcell, deployments }) => encodeStemcell(stemcell, deployments)),
    nextPageToken,
  };
}

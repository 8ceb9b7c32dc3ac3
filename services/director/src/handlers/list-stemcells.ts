import type { ListStemcellsRequest, ListStemcellsResponse } from "@diskmesh/api/director";
import { InvalidArgumentError } from "@diskmesh/domain";
import { parsePage, takePage } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { deploymentsWith } from "../model/recorded-deployments.js";
import { stemcellKey } from "../model/schema.js";
import { encodeStemcell } from "../wire.js";

const MAX_KEY_LENGTH = 1_000;

export async function listStemcells(context: Context, request: ListStemcellsRequest): Promise<ListStemcellsResponse> {
  const { paging } = context.config;
  const page = parsePage(request, paging, requireShortKey);
  return context.tablet.read((tables) => {
    const { items, nextPageToken } = takePage(tables.stemcells.entries(page), stemcellKey, page, paging);
    return {
      stemcells: items.map((stemcell) => encodeStemcell(stemcell, deploymentsWith(tables, stemcell))),
      nextPageToken,
    };
  });
}

function requireShortKey(key: string): void {
  if (key.length > MAX_KEY_LENGTH) throw new InvalidArgumentError("no stemcell has such a key");
}

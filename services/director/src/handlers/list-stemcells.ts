import type { ListStemcellsRequest, ListStemcellsResponse } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { deploymentsWith } from "../model/recorded-deployments.js";
import { stemcellKey } from "../model/schema.js";
import { encodeStemcell } from "../wire.js";

export async function listStemcells(
  { lists }: TaskContext,
  request: ListStemcellsRequest,
  call: CallContext,
): Promise<ListStemcellsResponse> {
  const { items, nextPageToken } = await lists.page(request, call, {
    what: "stemcells",
    begin: ({ stemcells }) => stemcells.snapshot(),
    keyOf: stemcellKey,
    describe: (tables, stemcell) => encodeStemcell(stemcell, deploymentsWith(tables, stemcell)),
  });
  return { stemcells: [...items], nextPageToken };
}

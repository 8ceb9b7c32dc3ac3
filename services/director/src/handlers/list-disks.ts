import type { ListDisksRequest, ListDisksResponse } from "@diskmesh/api/director";
import { parseOptionalName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { encodeDisk } from "../wire.js";
import { refuseUnlessEnabled } from "./parse.js";

export async function listDisks(
  context: TaskContext,
  request: ListDisksRequest,
  call: CallContext,
): Promise<ListDisksResponse> {
  const deployment = parseOptionalName("deployment", request.deployment);
  refuseUnlessEnabled(context);
  const { items, nextPageToken } = await context.lists.page(request, call, {
    what: "disks",
    begin: ({ disks }) => (deployment === undefined ? disks.snapshot() : disks.snapshot("byDeployment", deployment)),
    keyOf: (disk) => disk.name,
    describe: (_, disk) => encodeDisk(disk),
  });
  return { disks: [...items], nextPageToken };
}

import type {
  ForgetPossibleOrphanRequest,
  ForgetPossibleOrphanResponse,
  ListPossibleOrphansRequest,
  ListPossibleOrphansResponse,
} from "@diskmesh/api/director";
import { parseId } from "@diskmesh/domain";
import { type CallContext, pageOf } from "@diskmesh/rpc";
import { askerOf } from "../audit/asker.js";
import type { TaskContext } from "../tasks/context.js";
import { encodePossibleOrphan } from "./wire.js";

export async function forgetPossibleOrphan(
  context: TaskContext,
  request: ForgetPossibleOrphanRequest,
  call: CallContext,
): Promise<ForgetPossibleOrphanResponse> {
  const token = parseId("token", request.token);
  await context.tablet.transact((tx) => {
    const orphan = tx.possibleOrphans.get(token);
    if (orphan === undefined) return;
    tx.possibleOrphans.delete(token);
    const { kind, cid = "", madeFor, deployment } = orphan;
    const deed = { action: "forget", objectType: `possible_orphan/${kind}`, objectName: cid || madeFor };
    context.events.note(tx, deed, askerOf(call), { deployment });
  });
  return {};
}

export async function listPossibleOrphans(
  { tablet }: TaskContext,
  request: ListPossibleOrphansRequest,
): Promise<ListPossibleOrphansResponse> {
  const { items, nextPageToken } = await pageOf(tablet, request, {
    what: "possible orphans",
    rows: ({ possibleOrphans }, from) => possibleOrphans.entries(from),
    keyOf: (orphan) => orphan.token,
    describe: (_, orphan) => encodePossibleOrphan(orphan),
  });
  return { possibleOrphans: [...items], nextPageToken };
}

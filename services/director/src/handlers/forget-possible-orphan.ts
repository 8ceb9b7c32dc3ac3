import type { ForgetPossibleOrphanRequest, ForgetPossibleOrphanResponse } from "@diskmesh/api/director";
import { parseId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { askerOf } from "../workers/tasks.js";

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

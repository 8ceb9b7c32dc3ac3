import type { DeleteSnapshotsRequest, DeleteSnapshotsResponse } from "@diskmesh/api/director";
import { parseOptionalCid } from "@diskmesh/cpi";
import { parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { startTask } from "./start-task.js";

export async function deleteSnapshots(
  context: Context,
  request: DeleteSnapshotsRequest,
  call: CallContext,
): Promise<DeleteSnapshotsResponse> {
  const deployment = parseName("deployment", request.deployment);
  const snapshotCid = parseOptionalCid("snapshot", request.snapshotCid);
  const what = snapshotCid === "" ? "snapshots" : `snapshot \`${snapshotCid}\``;
  const task = await startTask(context, call, request.wait, {
    job: { type: "delete_snapshots", deployment, snapshotCid },
    queue: "normal",
    description: `delete ${what} of deployment \`${deployment}\``,
    deployment: () => deployment,
  });
  return { task: encodeTask(task) };
}

import type { DeleteOrphanedDiskRequest, DeleteOrphanedDiskResponse } from "@diskmesh/api/director";
import { parseCid } from "@diskmesh/cpi";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { orphanOf } from "../jobs/delete-orphaned-disk.js";
import { encodeTask } from "../wire.js";
import { startTask } from "./start-task.js";

export async function deleteOrphanedDisk(
  context: Context,
  request: DeleteOrphanedDiskRequest,
  call: CallContext,
): Promise<DeleteOrphanedDiskResponse> {
  const diskCid = parseCid("disk", request.diskCid);
  const task = await startTask(context, call, request.wait, {
    job: { type: "delete_orphaned_disk", diskCid },
    queue: "normal",
    description: `delete orphaned disk \`${diskCid}\``,
    deployment: () => "",
    // Looked at again when it runs: a disk may be attached until then.
    check: (tables) => void orphanOf(tables, diskCid),
  });
  return { task: encodeTask(task) };
}

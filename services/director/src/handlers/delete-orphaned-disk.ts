import type { DeleteOrphanedDiskRequest, DeleteOrphanedDiskResponse } from "@diskmesh/api/director";
import { InvalidArgumentError, quoted } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { isFileName } from "../model/cid.js";
import { encodeTask } from "../wire.js";
import { startTask } from "./disk-task.js";

export async function deleteOrphanedDisk(
  context: Context,
  request: DeleteOrphanedDiskRequest,
  call: CallContext,
): Promise<DeleteOrphanedDiskResponse> {
  const diskCid = parseDiskCid(request.diskCid);
  const task = await startTask(context, call, request.wait, {
    job: { type: "delete_orphaned_disk", diskCid },
    queue: "normal",
    description: `delete orphaned disk \`${diskCid}\``,
    deployment: () => "",
  });
  return { task: encodeTask(task) };
}

function parseDiskCid(value: string): string {
  if (isFileName(value)) return value;
  throw new InvalidArgumentError(`disk_cid ${quoted(value)} is no id of a disk`, { about: { field: "disk_cid" } });
}

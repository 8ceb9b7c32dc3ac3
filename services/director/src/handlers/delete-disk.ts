import type { DeleteDiskRequest, DeleteDiskResponse } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { parseDiskName, parseMeantAttachment } from "./parse.js";
import { startDiskTask } from "./start-task.js";

export async function deleteDisk(
  context: Context,
  request: DeleteDiskRequest,
  call: CallContext,
): Promise<DeleteDiskResponse> {
  const diskName = parseDiskName(request.diskName);
  const meant = parseMeantAttachment(request);
  const task = await startDiskTask(context, call, request.wait, {
    job: { type: "delete_dynamic_disk", diskName, meant },
    description: `delete dynamic disk \`${diskName}\``,
    deployment: (tables) => tables.disks.get(diskName)?.deployment ?? "",
  });
  return { task: encodeTask(task) };
}

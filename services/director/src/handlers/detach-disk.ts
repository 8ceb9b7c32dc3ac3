import type { DetachDiskRequest, DetachDiskResponse } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { parseDiskName, parseMeantAttachment } from "./parse.js";
import { currentDisk, startDiskTask } from "./start-task.js";

export async function detachDisk(
  context: Context,
  request: DetachDiskRequest,
  call: CallContext,
): Promise<DetachDiskResponse> {
  const diskName = parseDiskName(request.diskName);
  const meant = parseMeantAttachment(request);
  const task = await startDiskTask(context, call, request.wait, {
    job: { type: "detach_dynamic_disk", diskName, meant },
    description: `detach dynamic disk \`${diskName}\``,
    deployment: (tables) => tables.disks.get(diskName)?.deployment ?? "",
  });
  return { task: encodeTask(task), disk: await currentDisk(context, diskName, task) };
}

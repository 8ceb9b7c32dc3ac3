import type { AttachDiskRequest, AttachDiskResponse } from "@diskmesh/api/director";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { parseDiskName, parseInstanceId, parseMetadata } from "./parse.js";
import { currentDisk, startDiskTask } from "./start-task.js";

export async function attachDisk(
  context: Context,
  request: AttachDiskRequest,
  call: CallContext,
): Promise<AttachDiskResponse> {
  const diskName = parseDiskName(request.diskName);
  const instanceId = parseInstanceId(request.instanceId);
  const metadata = parseMetadata(context, request.metadata);
  const task = await startDiskTask(context, call, request.wait, {
    job: { type: "attach_dynamic_disk", diskName, instanceId, metadata },
    description: `attach dynamic disk \`${diskName}\` to instance \`${instanceId}\``,
    deployment: (tables) => tables.instances.get(instanceId)?.deployment ?? "",
  });
  return { task: encodeTask(task), disk: await currentDisk(context, diskName, task) };
}

import type { AttachOrphanedDiskRequest, AttachOrphanedDiskResponse } from "@diskmesh/api/director";
import { parseCid } from "@diskmesh/cpi";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { parseInstanceId } from "./parse.js";
import { startTask } from "./start-task.js";

export async function attachOrphanedDisk(
  context: Context,
  request: AttachOrphanedDiskRequest,
  call: CallContext,
): Promise<AttachOrphanedDiskResponse> {
  const diskCid = parseCid("disk", request.diskCid);
  const instanceId = parseInstanceId(request.instanceId);
  const task = await startTask(context, call, request.wait, {
    job: { type: "attach_orphaned_disk", diskCid, instanceId },
    queue: "normal",
    description: `attach orphaned disk \`${diskCid}\``,
    deployment: ({ instances }) => instances.get(instanceId)?.deployment ?? "",
  });
  return { task: encodeTask(task) };
}

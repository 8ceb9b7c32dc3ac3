import type { ProvideDiskRequest, ProvideDiskResponse } from "@diskmesh/api/director";
import { parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { parseDiskName, parseInstanceId, parseMetadata, parseSizeMib } from "./parse.js";
import { currentDisk, startDiskTask } from "./start-task.js";

export async function provideDisk(
  context: Context,
  request: ProvideDiskRequest,
  call: CallContext,
): Promise<ProvideDiskResponse> {
  const diskName = parseDiskName(request.diskName);
  const instanceId = parseInstanceId(request.instanceId);
  const pool = parseName("disk_pool_name", request.diskPoolName);
  const sizeMib = parseSizeMib(request.sizeBytes);
  const metadata = parseMetadata(context, request.metadata);
  const task = await startDiskTask(context, call, request.wait, {
    job: { type: "provide_dynamic_disk", diskName, instanceId, pool, sizeMib, metadata },
    description: `provide dynamic disk \`${diskName}\` for instance \`${instanceId}\``,
    deployment: (tables) => tables.instances.get(instanceId)?.deployment ?? "",
  });
  return { task: encodeTask(task), disk: await currentDisk(context, diskName, task) };
}

import type { CreateDiskRequest, CreateDiskResponse } from "@diskmesh/api/director";
import { parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { parseDiskName, parseMetadata, parseSizeMib } from "./parse.js";
import { currentDisk, startDiskTask } from "./start-task.js";

export async function createDisk(
  context: Context,
  request: CreateDiskRequest,
  call: CallContext,
): Promise<CreateDiskResponse> {
  const diskName = parseDiskName(request.diskName);
  const deployment = parseName("deployment", request.deployment);
  const az = parseName("az", request.az);
  const pool = parseName("disk_pool_name", request.diskPoolName);
  const sizeMib = parseSizeMib(request.sizeBytes);
  const metadata = parseMetadata(context, request.metadata);
  const task = await startDiskTask(context, call, request.wait, {
    job: { type: "create_dynamic_disk", diskName, deployment, az, pool, sizeMib, metadata },
    description: `create dynamic disk \`${diskName}\``,
    deployment: () => deployment,
  });
  return { task: encodeTask(task), disk: await currentDisk(context, diskName, task) };
}

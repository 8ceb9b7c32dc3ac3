import type { DynamicDiskServiceService } from "@diskmesh/api/director";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { startDiskTask } from "./disk-task.js";
import { parseDiskName } from "./parse.js";

export function detachDisk(context: Context): Handler<(typeof DynamicDiskServiceService)["detachDisk"]> {
  return async (request, call) => {
    const diskName = parseDiskName(request.diskName);
    const task = await startDiskTask(context, call, request.wait, {
      job: { type: "detach_dynamic_disk", diskName },
      description: `detach dynamic disk \`${diskName}\``,
      deployment: (tables) => tables.disks.get(diskName)?.deployment ?? "",
    });
    return { task: encodeTask(task) };
  };
}

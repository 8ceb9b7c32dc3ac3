import type { GetDiskRequest, GetDiskResponse } from "@diskmesh/api/director";
import { NotFoundError } from "@diskmesh/domain";
import type { TaskContext } from "../context.js";
import { encodeDisk } from "../wire.js";
import { parseDiskName, refuseUnlessEnabled } from "./parse.js";

export async function getDisk(context: TaskContext, request: GetDiskRequest): Promise<GetDiskResponse> {
  const diskName = parseDiskName(request.diskName);
  refuseUnlessEnabled(context);
  const disk = await context.tablet.read((tables) => tables.disks.get(diskName));
  if (disk === undefined) throw new NotFoundError(`disk \`${diskName}\` not found`, { about: { disk_name: diskName } });
  return { disk: encodeDisk(disk) };
}

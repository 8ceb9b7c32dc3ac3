import type { GetDiskRequest, GetDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId } from "@diskmesh/domain";
import type { Context } from "../../calls/context.js";
import { describeDisk } from "../../calls/device-description.js";
import { requireDisk } from "../../model/disks/publications.js";

export async function getDisk(context: Context, request: GetDiskRequest): Promise<GetDiskResponse> {
  const diskId = parseDiskId(request.diskId);
  const disk = await context.tablet.read((tables) => describeDisk(context, tables, requireDisk(tables, diskId)));
  return { disk };
}

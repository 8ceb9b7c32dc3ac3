import type { GetDiskRequest, GetDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { requireDisk } from "../model/publications.js";
import { describeDisk } from "../requests/device-description.js";

export async function getDisk(context: Context, request: GetDiskRequest): Promise<GetDiskResponse> {
  const diskId = parseDiskId(request.diskId);
  const disk = await context.tablet.read((tables) => describeDisk(context, tables, requireDisk(tables, diskId)));
  return { disk };
}

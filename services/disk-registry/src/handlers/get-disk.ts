import type { GetDiskRequest, GetDiskResponse } from "@diskmesh/api/registry";
import { parseDiskId } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { requireDisk } from "../model/publications.js";
import { diskMessage } from "../requests/wire.js";

export async function getDisk({ tablet }: Context, request: GetDiskRequest): Promise<GetDiskResponse> {
  const diskId = parseDiskId(request.diskId);
  return { disk: await tablet.read((tables) => diskMessage(tables, requireDisk(tables, diskId))) };
}

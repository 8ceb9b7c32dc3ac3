import type { DynamicDiskServiceService } from "@diskmesh/api/director";
import { NotFoundError } from "@diskmesh/domain";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeDisk } from "../wire.js";
import { parseDiskName, refuseUnlessEnabled } from "./parse.js";

export function getDisk(context: Context): Handler<(typeof DynamicDiskServiceService)["getDisk"]> {
  return async (request) => {
    const diskName = parseDiskName(request.diskName);
    refuseUnlessEnabled(context);
    const disk = await context.tablet.read((tables) => tables.disks.get(diskName));
    if (disk === undefined)
      throw new NotFoundError(`disk \`${diskName}\` not found`, { about: { disk_name: diskName } });
    return { disk: encodeDisk(disk) };
  };
}

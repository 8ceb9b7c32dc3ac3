import type { UpdateDiskRequest, UpdateDiskResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { parseSizeMib } from "../model/size.js";
import { cpiHandler } from "./cpi-handler.js";

export const updateDisk = (context: DispatcherContext) =>
  cpiHandler<UpdateDiskRequest, UpdateDiskResponse>(context, "update_disk", async (cpi, request, call) => {
    const diskCid = parseCid("disk_cid", request.diskCid);
    const properties = request.cloudProperties ?? {};
    return { diskCid: await cpi.updateDisk(diskCid, parseSizeMib(request.sizeMib), properties, call) };
  });

import type { CreateDiskRequest, CreateDiskResponse } from "@diskmesh/api/cpi";
import { parseId, parseOptionalName } from "@diskmesh/domain";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { parseSizeMib } from "../model/size.js";
import { cpiHandler } from "./cpi-handler.js";

export const createDisk = (context: DispatcherContext) =>
  cpiHandler<CreateDiskRequest, CreateDiskResponse>(context, "create_disk", async (cpi, request, call, chosen) => {
    const disk = {
      sizeMib: parseSizeMib(request.sizeMib),
      cloudProperties: request.cloudProperties ?? {},
      vmCid: request.vmCid === "" ? "" : parseCid("vm_cid", request.vmCid),
      az: parseOptionalName("az", request.az) ?? "",
      token: request.token === "" ? "" : parseId("token", request.token),
    };
    return { diskCid: await cpi.createDisk(disk, call), cpi: chosen.recordedName };
  });

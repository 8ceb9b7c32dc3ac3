import type { CreateDiskRequest, CreateDiskResponse } from "@diskmesh/api/cpi";
import { InvalidArgumentError, parseId, parseOptionalName } from "@diskmesh/domain";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const createDisk = (context: DispatcherContext) =>
  cpiHandler<CreateDiskRequest, CreateDiskResponse>(context, async (cpi, request, call) => {
    const { sizeMib } = request;
    if (sizeMib <= 0)
      throw new InvalidArgumentError(`size_mib is ${sizeMib}: it must be above 0`, { about: { field: "size_mib" } });
    const disk = {
      sizeMib,
      cloudProperties: request.cloudProperties ?? {},
      vmCid: request.vmCid === "" ? "" : parseCid("vm_cid", request.vmCid),
      az: parseOptionalName("az", request.az) ?? "",
      token: request.token === "" ? "" : parseId("token", request.token),
    };
    return { diskCid: await cpi.createDisk(disk, call) };
  });

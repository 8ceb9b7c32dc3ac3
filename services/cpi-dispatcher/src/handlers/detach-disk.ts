import type { DetachDiskRequest, DetachDiskResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const detachDisk = (context: DispatcherContext) =>
  cpiHandler<DetachDiskRequest, DetachDiskResponse>(context, "detach_disk", async (cpi, request, call) => {
    await cpi.detachDisk(parseCid("vm_cid", request.vmCid), parseCid("disk_cid", request.diskCid), call);
    return {};
  });

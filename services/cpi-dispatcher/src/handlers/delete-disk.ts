import type { DeleteDiskRequest, DeleteDiskResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const deleteDisk = (context: DispatcherContext) =>
  cpiHandler<DeleteDiskRequest, DeleteDiskResponse>(context, "delete_disk", async (cpi, request, call) => {
    await cpi.deleteDisk(parseCid("disk_cid", request.diskCid), call);
    return {};
  });

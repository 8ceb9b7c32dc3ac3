import type { ResizeDiskRequest, ResizeDiskResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { parseSizeMib } from "../model/size.js";
import { cpiHandler } from "./cpi-handler.js";

export const resizeDisk = (context: DispatcherContext) =>
  cpiHandler<ResizeDiskRequest, ResizeDiskResponse>(context, "resize_disk", async (cpi, request, call) => {
    await cpi.resizeDisk(parseCid("disk_cid", request.diskCid), parseSizeMib(request.sizeMib), call);
    return {};
  });

import type { HasDiskRequest, HasDiskResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const hasDisk = (context: DispatcherContext) =>
  cpiHandler<HasDiskRequest, HasDiskResponse>(
    context,
    "has_disk",
    async (cpi, request, call) => ({ exists: await cpi.hasDisk(parseCid("disk_cid", request.diskCid), call) }),
    ({ exists }) => !exists,
  );

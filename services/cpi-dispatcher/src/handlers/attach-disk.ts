import type { AttachDiskRequest, AttachDiskResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { stringifiedHint } from "../model/disk-hint.js";
import { cpiHandler } from "./cpi-handler.js";

export const attachDisk = (context: DispatcherContext) =>
  cpiHandler<AttachDiskRequest, AttachDiskResponse>(context, "attach_disk", async (cpi, request, call) => {
    const diskCid = parseCid("disk_cid", request.diskCid);
    const hint = await cpi.attachDisk(parseCid("vm_cid", request.vmCid), diskCid, call);
    return { diskHint: hint === undefined ? undefined : stringifiedHint(hint, diskCid) };
  });

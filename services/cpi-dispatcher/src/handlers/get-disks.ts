import type { GetDisksRequest, GetDisksResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const getDisks = (context: DispatcherContext) =>
  cpiHandler<GetDisksRequest, GetDisksResponse>(context, "get_disks", async (cpi, request, call) => ({
    diskCids: [...(await cpi.getDisks(parseCid("vm_cid", request.vmCid), call))],
  }));

import type { DeleteVmRequest, DeleteVmResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const deleteVm = (context: DispatcherContext) =>
  cpiHandler<DeleteVmRequest, DeleteVmResponse>(context, "delete_vm", async (cpi, request, call) => {
    await cpi.deleteVm(parseCid("vm_cid", request.vmCid), call);
    return {};
  });

import type { RebootVmRequest, RebootVmResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const rebootVm = (context: DispatcherContext) =>
  cpiHandler<RebootVmRequest, RebootVmResponse>(context, "reboot_vm", async (cpi, request, call) => {
    await cpi.rebootVm(parseCid("vm_cid", request.vmCid), call);
    return {};
  });

import type { HasVmRequest, HasVmResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const hasVm = (context: DispatcherContext) =>
  cpiHandler<HasVmRequest, HasVmResponse>(
    context,
    "has_vm",
    async (cpi, request, call) => ({ exists: await cpi.hasVm(parseCid("vm_cid", request.vmCid), call) }),
    ({ exists }) => !exists,
  );

import type { SetVmMetadataRequest, SetVmMetadataResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const setVmMetadata = (context: DispatcherContext) =>
  cpiHandler<SetVmMetadataRequest, SetVmMetadataResponse>(context, "set_vm_metadata", async (cpi, request, call) => {
    await cpi.setVmMetadata(parseCid("vm_cid", request.vmCid), request.metadata ?? {}, call);
    return {};
  });

import type { CreateVmRequest, CreateVmResponse } from "@diskmesh/api/cpi";
import { parseId, parseOptionalName } from "@diskmesh/domain";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const createVm = (context: DispatcherContext) =>
  cpiHandler<CreateVmRequest, CreateVmResponse>(context, "create_vm", async (cpi, request, call, chosen) => {
    const { cloudProperties, networks, env } = request;
    const vm = {
      agentId: parseId("agent_id", request.agentId),
      stemcellCid: request.stemcellCid === "" ? "" : parseCid("stemcell_cid", request.stemcellCid),
      cloudProperties: cloudProperties ?? {},
      networks: networks ?? {},
      diskCids: request.diskCids.map((diskCid) => parseCid("disk_cids", diskCid)),
      env: env ?? {},
      az: parseOptionalName("az", request.az) ?? "",
    };
    return { ...(await cpi.createVm(vm, call)), cpi: chosen.recordedName };
  });

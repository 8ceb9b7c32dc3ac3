import type { DeleteStemcellRequest, DeleteStemcellResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const deleteStemcell = (context: DispatcherContext) =>
  cpiHandler<DeleteStemcellRequest, DeleteStemcellResponse>(context, "delete_stemcell", async (cpi, request, call) => {
    await cpi.deleteStemcell(parseCid("stemcell_cid", request.stemcellCid), call);
    return {};
  });

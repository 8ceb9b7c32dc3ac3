import type { SetDiskMetadataRequest, SetDiskMetadataResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const setDiskMetadata = (context: DispatcherContext) =>
  cpiHandler<SetDiskMetadataRequest, SetDiskMetadataResponse>(
    context,
    "set_disk_metadata",
    async (cpi, request, call) => {
      await cpi.setDiskMetadata(parseCid("disk_cid", request.diskCid), request.metadata ?? {}, call);
      return {};
    },
  );

import type { DeleteSnapshotRequest, DeleteSnapshotResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const deleteSnapshot = (context: DispatcherContext) =>
  cpiHandler<DeleteSnapshotRequest, DeleteSnapshotResponse>(context, "delete_snapshot", async (cpi, request, call) => {
    await cpi.deleteSnapshot(parseCid("snapshot_cid", request.snapshotCid), call);
    return {};
  });

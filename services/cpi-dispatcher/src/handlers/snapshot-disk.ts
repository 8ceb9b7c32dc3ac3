import type { SnapshotDiskRequest, SnapshotDiskResponse } from "@diskmesh/api/cpi";
import type { DispatcherContext } from "../context.js";
import { parseCid } from "../model/cid.js";
import { cpiHandler } from "./cpi-handler.js";

export const snapshotDisk = (context: DispatcherContext) =>
  cpiHandler<SnapshotDiskRequest, SnapshotDiskResponse>(context, "snapshot_disk", async (cpi, request, call) => ({
    snapshotCid: await cpi.snapshotDisk(parseCid("disk_cid", request.diskCid), request.metadata ?? {}, call),
  }));

import {
  PersistentDiskState,
  type PersistentDisk as WirePersistentDisk,
  type Snapshot as WireSnapshot,
} from "@diskmesh/api/director";
import { sizeBytesOf } from "../../store/disk.js";
import type { PersistentDisk } from "../../store/persistent-disk.js";
import type { Snapshot } from "../../store/snapshot.js";

export function encodePersistentDisk(disk: PersistentDisk): WirePersistentDisk {
  const { diskId, diskCid, deployment, group, instanceId, vmCid, az, cpi, hint, orphanedAtMs, state } = disk;
  return {
    persistentDiskId: diskId,
    diskCid,
    deployment,
    group,
    instanceId,
    vmCid,
    az,
    sizeBytes: sizeBytesOf(disk),
    cpi,
    diskHint: hint ?? undefined,
    orphanTime: orphanedAtMs === null ? undefined : new Date(orphanedAtMs),
    state: PersistentDiskState[state.toUpperCase() as Uppercase<typeof state>],
  };
}

export function encodeSnapshot(snapshot: Snapshot): WireSnapshot {
  const { snapshotCid, deployment, group, instanceId, index, diskCid, cpi, createdAtMs } = snapshot;
  return { snapshotCid, deployment, group, instanceId, index, diskCid, cpi, createTime: new Date(createdAtMs) };
}

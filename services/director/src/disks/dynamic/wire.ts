import type { DynamicDisk } from "@diskmesh/api/director";
import { type Disk, sizeBytesOf } from "../../store/disk.js";
import { isFirstAttachment, pathOf, wasNeverAttached } from "./disk.js";

/** Encodes a disk as a tablet of the incarnation serves it. */
export function encodeDisk(disk: Disk, incarnation: string): DynamicDisk {
  return {
    diskName: disk.name,
    diskCid: disk.diskCid,
    deployment: disk.deployment,
    instanceId: disk.instanceId,
    hostId: disk.hostId ?? "",
    path: disk.hostId === undefined ? "" : pathOf(disk),
    attachmentId: disk.vmCid === "" ? "" : disk.attachmentId,
    vmCid: disk.vmCid,
    az: disk.az,
    sizeBytes: sizeBytesOf(disk),
    diskPoolName: disk.deployment === "" ? "" : disk.pool,
    pool: disk.deployment === "" ? disk.pool : "",
    cpi: disk.cpi,
    metadata: { ...disk.metadata },
    diskHint: disk.hostId === undefined ? (disk.hint ?? undefined) : undefined,
    readOnly: disk.readOnly ?? false,
    limits: disk.limits && { ...disk.limits },
    firstAttachment: isFirstAttachment(disk, incarnation),
    createTime: disk.createdAtMs === undefined ? undefined : new Date(disk.createdAtMs),
    neverAttached: wasNeverAttached(disk, incarnation),
  };
}

import type { DynamicDisk } from "@diskmesh/api/director";
import { MIB_BYTES } from "@diskmesh/domain";
import type { Disk } from "../../store/disk.js";

export function encodeDisk(disk: Disk): DynamicDisk {
  return {
    diskName: disk.name,
    diskCid: disk.diskCid,
    deployment: disk.deployment,
    instanceId: disk.instanceId,
    attachmentId: disk.instanceId === "" ? "" : disk.attachmentId,
    vmCid: disk.vmCid,
    az: disk.az,
    sizeBytes: disk.sizeMib * MIB_BYTES,
    diskPoolName: disk.pool,
    cpi: disk.cpi,
    metadata: { ...disk.metadata },
    diskHint: disk.hint ?? undefined,
    readOnly: disk.readOnly ?? false,
    limits: disk.limits && { ...disk.limits },
  };
}

import type { PersistentDisk } from "@diskmesh/api/director";
import { MIB_BYTES } from "@diskmesh/domain";
import { formatInstance } from "../../store/instance.js";
import { timeText } from "../times.js";

/** Returns an orphaned disk in the format of BOSH's lists. */
export function orphanedDiskObject(disk: PersistentDisk): object {
  return {
    disk_cid: disk.diskCid,
    size: disk.sizeBytes / MIB_BYTES,
    az: disk.az,
    deployment_name: disk.deployment,
    instance_name: formatInstance(disk),
    cloud_properties: {},
    orphaned_at: timeText(disk.orphanedAt),
  };
}

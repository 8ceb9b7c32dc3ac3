import type { PersistentDisk } from "@diskmesh/api/director";
import { MIB_BYTES } from "@diskmesh/domain";
import { formatInstance } from "../../store/instance.js";
import type { PossibleOrphan } from "../../store/possible-orphan.js";
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

/** Returns a possible orphan of the kind disk in the format of BOSH's lists. Its size is not known. */
export function possiblyOrphanedDiskObject(orphan: PossibleOrphan): object {
  const { az, deployment, madeFor, sinceMs } = orphan;
  return {
    disk_cid: shownCid(orphan),
    size: null,
    az,
    deployment_name: deployment,
    instance_name: madeFor,
    cloud_properties: {},
    orphaned_at: timeText(new Date(sinceMs)),
  };
}

/** Returns a possible orphan of the kind vm in the format of BOSH's lists. */
export function possiblyOrphanedVmObject(orphan: PossibleOrphan): object {
  const { az, deployment, madeFor, sinceMs } = orphan;
  return {
    az,
    cid: shownCid(orphan),
    deployment_name: deployment,
    instance_name: madeFor,
    ip_addresses: [],
    orphaned_at: timeText(new Date(sinceMs)),
  };
}

/** Returns the token in place of a CID that the CPI did not tell. */
function shownCid({ cid = "", token }: PossibleOrphan): string {
  return cid || `unknown (token ${token})`;
}

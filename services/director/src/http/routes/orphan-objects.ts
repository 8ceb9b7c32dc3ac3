import { sizeBytesOf } from "../../store/disk.js";
import { formatInstance } from "../../store/instance.js";
import type { PersistentDisk } from "../../store/persistent-disk.js";
import type { PossibleOrphan } from "../../store/possible-orphan.js";
import { wholeMib } from "../sizes.js";
import { timeText } from "../times.js";

/** Returns an orphaned disk in the format of BOSH's lists. */
export function orphanedDiskObject(disk: PersistentDisk): object {
  const { diskCid, az, deployment, cloudProperties, orphanedAtMs } = disk;
  return {
    disk_cid: diskCid,
    size: wholeMib(sizeBytesOf(disk)),
    az,
    deployment_name: deployment,
    instance_name: formatInstance(disk),
    cloud_properties: cloudProperties,
    orphaned_at: timeText(orphanedAtMs === null ? undefined : new Date(orphanedAtMs)),
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

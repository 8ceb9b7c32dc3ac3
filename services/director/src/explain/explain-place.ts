import { PublicationState } from "@diskmesh/api/registry";
import type { Cure } from "@diskmesh/domain";
import type { Disk } from "../store/disk.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import type { Found } from "./cause.js";

/** Where a disk-registry has a disk. */
export interface RegistryPlace {
  readonly state: PublicationState;
  readonly hostId: string;
  /** VM that the host is; empty for none. */
  readonly vmCid: string;
}

/** A registry's record of a disk. */
export interface RegistryDisk {
  /** Absent when the disk is published nowhere. */
  readonly place: RegistryPlace | undefined;
  /** True: the disk was taken from its host by a fence, which the registry explains itself. */
  readonly isFenced: boolean;
}

/**
 * Returns the contradiction between the director's record of a disk and that of its disk-registry, as after a restore of one
 * of them. `registered` is undefined for a disk that no registry knows.
 */
export function placeCause(disk: Disk | PersistentDisk, registered: RegistryDisk | undefined): Found | undefined {
  const { state, diskCid } = disk;
  const isAttached = state === "attached";
  if (!isAttached && state !== "detached") return undefined;
  const name = "name" in disk ? disk.name : disk.diskId;
  const hostId = "hostId" in disk ? disk.hostId : undefined;
  const own = isAttached ? `attached to ${hostId === undefined ? `VM ${disk.vmCid}` : `host ${hostId}`}` : "detached";
  const said = (of: string, cures: readonly Cure[]): Found => ({
    reason: "RECORDS_DIFFER",
    message: `this director has disk ${name} (${diskCid}) as ${own}, and ${of}: one of the two was restored from an older backup, or the disk was changed without this director`,
    cures,
  });
  if (registered === undefined) {
    // Only disks of hosts are certain to be in a registry.
    if (!("name" in disk) || disk.deployment !== "") return undefined;
    return said("no disk-registry knows it", [
      ["restore a later backup of the disk-registry if there is one", ""],
      ["else provide another disk from your copies, and delete this record", ""],
    ]);
  }
  const detach: Cure = ["detach the disk, then attach it again", `diskmesh detach ${name}`];
  const { place, isFenced } = registered;
  if (isFenced) return undefined;
  if (place === undefined)
    return isAttached && "name" in disk ? said("its disk-registry has it published nowhere", [detach]) : undefined;
  if (place.state !== PublicationState.PUBLISHED) return undefined;
  const elsewhere = `its disk-registry has it published to host ${place.hostId}`;
  if (isAttached) {
    const isThere = hostId === undefined ? disk.vmCid === place.vmCid : hostId === place.hostId;
    return isThere || !("name" in disk) ? undefined : said(elsewhere, [detach]);
  }
  const attach: Cure =
    "name" in disk && disk.deployment === ""
      ? ["attach it to that host: both records then agree", `diskmesh attach ${name} --host ${place.hostId}`]
      : ["attach it to that host: both records then agree", ""];
  return said(elsewhere, [attach]);
}

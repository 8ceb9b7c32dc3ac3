import { createHash } from "node:crypto";

/** Length in hex digits of the hash in a volume ID: 128 bits. */
const HASH_LENGTH = 32;

/** The owner of an orchestrator's volumes: a deployment whose instances are its nodes, or a cluster of hosts. */
export type Owner = { readonly deployment: string } | { readonly cluster: string };

/** Key of a disk's metadata that names the cluster of its volume. */
export const CLUSTER = "csi_cluster";

/**
 * Returns the ID of a volume, which is also its disk's name. Names of volumes may hold any characters and be longer than
 * names of disks, so the ID has a hash of the name.
 */
export function volumeIdOf(owner: Owner, name: string): string {
  const ofOwner = "deployment" in owner ? owner.deployment : `cluster/${owner.cluster}`;
  const hash = createHash("sha256")
    .update(JSON.stringify([ofOwner, name]))
    .digest("hex");
  return `csi-${hash.slice(0, HASH_LENGTH)}`;
}

/** Returns true for an ID that the driver made. Other disks of the director are no volumes, and the driver leaves them alone. */
export function isVolumeId(id: string): boolean {
  return /^csi-[0-9a-f]{32}$/.test(id);
}

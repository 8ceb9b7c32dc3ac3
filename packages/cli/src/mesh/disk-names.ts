import { DomainError } from "@diskmesh/domain";
import { allPages } from "@diskmesh/rpc";
import type { Mesh } from "./mesh.js";

/** Returns the CID of the dynamic disk with that name. Any other text is taken for a CID, also while no director answers. */
export async function cidOfDisk(mesh: Mesh, nameOrCid: string): Promise<string> {
  try {
    const { disk } = await mesh.disks.getDynamicDisk({ diskName: nameOrCid });
    return disk?.diskCid || nameOrCid;
  } catch (error) {
    if (error instanceof DomainError) return nameOrCid;
    throw error;
  }
}

/** Returns the name of the dynamic disk with that name or CID; the text itself for any other. */
export async function nameOfDisk(mesh: Mesh, nameOrCid: string): Promise<string> {
  const disks = await dynamicDisks(mesh);
  return disks.find(({ diskCid, diskName }) => [diskName, diskCid].includes(nameOrCid))?.diskName ?? nameOrCid;
}

/** Returns the names of dynamic disks by CID; empty while no director answers. */
export async function namesOfDisks(mesh: Mesh): Promise<ReadonlyMap<string, string>> {
  const found = await dynamicDisks(mesh).catch(() => []);
  return new Map(found.map(({ diskCid, diskName }) => [diskCid, diskName]));
}

export function dynamicDisks(mesh: Mesh, deployment = "") {
  return allPages(async (pageToken) => {
    const { disks: items, nextPageToken } = await mesh.disks.listDynamicDisks({ deployment, pageToken });
    return { items, nextPageToken };
  });
}

import type { Disk, ListDisksRequest } from "@diskmesh/api/registry";
import { DISK_NAME_LABEL, NotFoundError } from "@diskmesh/domain";
import { allPages } from "@diskmesh/rpc";
import type { Mesh } from "../../mesh/mesh.js";
import { UsageError } from "../../output/exit-codes.js";
import { timeText } from "../../output/output.js";
import type { Action } from "../action.js";

export const undelete: Action = {
  usage: "undelete <disk>",
  summary: "bring back a deleted disk, by its name or id, while its pool's deleteGraceMs keeps it",
  example: "diskmesh undelete scratch",
  run: async ({ mesh, output, args: [nameOrId = ""] }) => {
    const diskId = (await findDeleted(mesh, nameOrId))?.diskId ?? nameOrId;
    const answer = await mesh.registry.undeleteDisk({ diskId });
    output.answer(answer, `disk ${diskId} is back, as it was when it was deleted`);
  },
};

/** Returns the disks of the fleet that match the filter. */
export function listedDisks(mesh: Mesh, filter: Partial<ListDisksRequest>): Promise<Disk[]> {
  return allPages(async (pageToken) => {
    const { disks: items, nextPageToken } = await mesh.registry.listDisks({ ...filter, pageToken });
    return { items, nextPageToken };
  });
}

export const isDeleted = ({ deleteTime }: Disk): boolean => deleteTime !== undefined;

/** Returns the name by which a director knows, or knew, the disk; empty for none. */
export function nameOfDisk({ labels }: Disk): string {
  return labels.find(({ name }) => name === DISK_NAME_LABEL)?.value ?? "";
}

/** Returns the deleted disk with that ID or name. Throws NotFoundError when there is none. */
export async function requireDeleted(mesh: Mesh, nameOrId: string): Promise<Disk> {
  const found = await findDeleted(mesh, nameOrId);
  if (found !== undefined) return found;
  throw new NotFoundError(
    `no deleted disk with the name or id ${nameOrId} is kept: \`diskmesh disks --deleted\` lists them`,
  );
}

/** Returns the deleted disk with that ID or name; undefined when there is none. */
export async function findDeleted(mesh: Mesh, nameOrId: string): Promise<Disk | undefined> {
  const deleted = (await listedDisks(mesh, { showDeleted: true })).filter(isDeleted);
  const byId = deleted.find(({ diskId }) => diskId === nameOrId);
  const named = deleted.filter((disk) => nameOfDisk(disk) === nameOrId);
  if (byId !== undefined || named.length < 2) return byId ?? named[0];
  const each = named.map(({ diskId, deleteTime }) => `${diskId} (deleted ${timeText(deleteTime)})`);
  throw new UsageError(
    `${named.length} deleted disks had the name ${nameOrId}: give the id of one: ${each.join(", ")}`,
  );
}

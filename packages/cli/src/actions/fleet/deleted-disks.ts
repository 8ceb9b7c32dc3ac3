import type { Disk, ListDisksRequest } from "@diskmesh/api/registry";
import { DISK_NAME_LABEL, NotFoundError } from "@diskmesh/domain";
import { allPages } from "@diskmesh/rpc";
import { cidOfDisk } from "../../mesh/disk-names.js";
import type { Mesh } from "../../mesh/mesh.js";
import { UsageError } from "../../output/exit-codes.js";
import { timeText } from "../../output/output.js";
import type { Action } from "../action.js";
import { followTask } from "../task-run.js";

export const undelete: Action = {
  usage: "undelete <disk>",
  summary: "bring back a deleted disk, by its name or id, while its pool's deleteGraceMs keeps it",
  example: "diskmesh undelete scratch",
  run: async (call) => {
    const { mesh, output, args } = call;
    const [nameOrId = ""] = args;
    const disks = await listedDisks(mesh, { showDeleted: true });
    // A repetition finds a disk that is no longer deleted, and that the director has not taken back yet.
    const found = deletedIn(disks, nameOrId) ?? disks.find((disk) => isNamed(disk, nameOrId));
    const name = found === undefined ? "" : nameOfDisk(found);
    const diskId = found?.diskId ?? nameOrId;
    if (name !== "") await refuseTakenName(mesh, name, diskId);
    const answer = await mesh.registry.undeleteDisk({ diskId });
    if (name === "") return output.answer(answer, `disk ${diskId} is back, as it was when it was deleted`);
    await followTask(call, (await mesh.disks.undeleteDynamicDisk({ diskName: name, diskCid: diskId })).task);
  },
};

/** Refuses a name that a director has given to another disk, before anything is changed. */
async function refuseTakenName(mesh: Mesh, diskName: string, diskId: string): Promise<void> {
  const present = await cidOfDisk(mesh, diskName);
  if (present !== diskName && present !== diskId)
    throw new UsageError(`the director has another disk named ${diskName} now, ${present}: delete that one first`);
}

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
  return deletedIn(await listedDisks(mesh, { showDeleted: true }), nameOrId);
}

function deletedIn(disks: readonly Disk[], nameOrId: string): Disk | undefined {
  const found = disks.filter((disk) => isDeleted(disk) && isNamed(disk, nameOrId));
  const [first, second] = found;
  const byId = found.find(({ diskId }) => diskId === nameOrId);
  if (byId !== undefined || second === undefined) return byId ?? first;
  const each = found.map(({ diskId, deleteTime }) => `${diskId} (deleted ${timeText(deleteTime)})`);
  throw new UsageError(
    `${found.length} deleted disks had the name ${nameOrId}: give the id of one: ${each.join(", ")}`,
  );
}

const isNamed = (disk: Disk, nameOrId: string): boolean => disk.diskId === nameOrId || nameOfDisk(disk) === nameOrId;

import type { ListVolumesRequest, ListVolumesResponse, ListVolumesResponse_Entry } from "@diskmesh/api/csi";
import type { DynamicDisk } from "@diskmesh/api/director";
import { AbortedError, InvalidArgumentError } from "@diskmesh/domain";
import { allPages } from "@diskmesh/rpc";
import { type Node, nodeIdOf } from "../model/node-id.js";
import type { ControllerContext } from "./context.js";
import { volumeOf } from "./volume.js";
import { CLUSTER, isVolumeId } from "./volume-id.js";

/** The director's maximum. */
const PAGE_SIZE = 1_000;

/** Lists the volumes by their IDs. The token is the director's, whose pages show one snapshot. */
export async function listVolumes(
  context: ControllerContext,
  { maxEntries, startingToken }: ListVolumesRequest,
): Promise<ListVolumesResponse> {
  if (maxEntries < 0) throw new InvalidArgumentError(`max_entries is ${maxEntries}: give 0 or more`);
  const entries: ListVolumesResponse_Entry[] = [];
  let token = startingToken;
  do {
    const leftover = maxEntries === 0 ? PAGE_SIZE : maxEntries - entries.length;
    const { disks, nextPageToken } = await page(context, Math.min(leftover, PAGE_SIZE), token);
    entries.push(...disks.filter((disk) => isVolume(context, disk)).map(entryOf));
    token = nextPageToken;
  } while (token !== "" && (maxEntries === 0 || entries.length < maxEntries));
  return { entries, nextToken: token };
}

/** Returns the number of volumes that a node has. */
export async function volumesOn(context: ControllerContext, node: Node): Promise<number> {
  return (await allDisks(context, node)).length;
}

/** Returns the disks of all volumes. */
export async function allVolumes(context: ControllerContext): Promise<DynamicDisk[]> {
  return (await allDisks(context)).filter((disk) => isVolume(context, disk));
}

function allDisks({ disks }: ControllerContext, node?: Node): Promise<DynamicDisk[]> {
  return allPages(async (token) => {
    const { disks: items, nextPageToken } = await disks.page(PAGE_SIZE, token, node);
    return { items, nextPageToken };
  });
}

async function page({ disks }: ControllerContext, pageSize: number, token: string) {
  try {
    return await disks.page(pageSize, token);
  } catch (error) {
    // CSI has this code for a token that is not valid.
    if (error instanceof InvalidArgumentError && token !== "")
      throw new AbortedError(`starting_token is not valid: list again without it; ${error.message}`, { cause: error });
    throw error;
  }
}

/** Returns true for a complete disk that a driver of this deployment or cluster made. */
function isVolume({ disks: { owner } }: ControllerContext, { diskName, diskCid, metadata }: DynamicDisk): boolean {
  return diskCid !== "" && isVolumeId(diskName) && ("deployment" in owner || metadata?.[CLUSTER] === owner.cluster);
}

function entryOf(disk: DynamicDisk): ListVolumesResponse_Entry {
  const publishedNodeIds = [nodeIdOf(disk)].filter((nodeId) => nodeId !== "");
  return { volume: volumeOf(disk), status: { publishedNodeIds } };
}

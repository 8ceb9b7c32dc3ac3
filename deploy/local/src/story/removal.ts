import type { Instance } from "@diskmesh/api/director";
import { ActionCode, CopyState, type Disk } from "@diskmesh/api/registry";
import { InvalidStateError } from "@diskmesh/domain";
import { HOSTS } from "../mesh/layout.js";
import { useDisk } from "./disk-data.js";
import { type Scene, waitFor } from "./scene.js";

/** A disk in use, and the host to which it moves, or from which. */
interface Move {
  readonly diskId: string;
  readonly hostId: string;
  /** Path of the disk on the host that uses it. */
  readonly link: string;
}

/** Returns the host on which no instance runs. */
export function spareHost(instances: readonly Instance[]): string {
  const spare = HOSTS.find(({ hostId }) => !instances.some(({ agentId }) => agentId === hostId));
  if (spare === undefined) throw new InvalidStateError("every host has an instance");
  return spare.hostId;
}

/** Moves the bytes of a disk to a host while a program writes to the disk. */
export function moveDisk(scene: Scene, { diskId, hostId, link }: Move): Promise<string> {
  return whileUsed(scene, link, async () => {
    const from = await waitFor(scene, `MigrateDisk to ${hostId}`, async () => {
      const { disk } = await scene.clients.registry.migrateDisk({ diskId, hostId });
      return disk && hostsOf(disk);
    });
    const is = await waitFor(scene, `disk ${diskId} on ${hostId}`, async () => {
      const { disk } = await scene.clients.registry.getDisk({ diskId });
      return disk && isSettled(disk) && hostsOf(disk).every((id) => id === hostId) ? hostsOf(disk) : undefined;
    });
    return `from ${from.join(", ")} to ${is.join(", ")}`;
  });
}

/** Removes a host that has the bytes of a disk in use. The disk moves away by itself. */
export function removeHost(scene: Scene, { diskId, hostId, link }: Move): Promise<string> {
  return whileUsed(scene, link, async () => {
    let last = "";
    let ofDisk = "";
    await waitFor(
      scene,
      () => `RemoveHost ${hostId}: ${last}`,
      async () => {
        const { result } = await scene.clients.registry.removeHost({ hostId });
        last = result?.message ?? "";
        if (last.includes(diskId)) ofDisk = last;
        return result?.code === ActionCode.S_OK || result?.code === ActionCode.S_ALREADY ? true : undefined;
      },
    );
    const { disk } = await scene.clients.registry.getDisk({ diskId });
    if (disk === undefined || hostsOf(disk).includes(hostId))
      throw new InvalidStateError(`disk ${diskId} is on ${hostId}, which was removed`);
    return `S_OK after "${ofDisk}"; the disk is on ${hostsOf(disk).join(", ")}`;
  });
}

async function whileUsed(scene: Scene, link: string, work: () => Promise<string>): Promise<string> {
  const user = await useDisk(scene, link);
  let done: string;
  try {
    done = await work();
  } catch (error) {
    await user.stop().catch(() => {});
    throw error;
  }
  return `${done}; ${await user.stop()} writes meanwhile, none failed`;
}

function isSettled({ parts }: Disk): boolean {
  return parts.every(({ copies, move }) => move === undefined && copies.length === 1);
}

/** Returns the hosts that have the disk's bytes. */
function hostsOf({ parts }: Disk): string[] {
  const copies = parts.flatMap((part) => part.copies.filter(({ state }) => state === CopyState.COUNTS));
  return [...new Set(copies.map(({ hostId }) => hostId))];
}

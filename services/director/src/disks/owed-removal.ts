import type { Disk } from "../store/disk.js";
import type { Instance } from "../store/instance.js";
import type { OwedRemoval } from "../store/owed-removal.js";

export function agentOfOwedRemoval(key: string): string {
  return key.slice(0, key.indexOf(" "));
}

/** Returns the pending detach notification of a disk with a recorded detach intent. */
export function owedRemoval(disk: Disk, { agentId }: Pick<Instance, "agentId">, sinceMs: number): OwedRemoval {
  const { attachmentId, name: diskName, diskCid, instanceId, vmCid } = disk;
  return { agentId, attachmentId, diskName, diskCid, instanceId, vmCid, sinceMs };
}

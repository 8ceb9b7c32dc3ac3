import type { Disk } from "../store/disk.js";
import type { Instance } from "../store/instance.js";
import type { OwedRemoval } from "../store/owed-removal.js";

export function agentOfOwedRemoval(key: string): string {
  return key.slice(0, key.indexOf(" "));
}

/** Returns true when an agent that was asked in vain has sent no heartbeat since; `silentMs` counts from the last one. */
export function isStillSilent(owed: Iterable<OwedRemoval>, silentMs: number, nowMs: number): boolean {
  for (const { sinceMs } of owed) if (nowMs - sinceMs <= silentMs) return true;
  return false;
}

/** Returns the pending detach notification of a disk with a recorded detach intent. */
export function owedRemoval(disk: Disk, { agentId }: Pick<Instance, "agentId">, sinceMs: number): OwedRemoval {
  const { attachmentId, name: diskName, diskCid, instanceId, vmCid } = disk;
  return { agentId, attachmentId, diskName, diskCid, instanceId, vmCid, sinceMs };
}

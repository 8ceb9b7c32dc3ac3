import type { Troubled } from "@diskmesh/page/attention";
import { wasNeverAttached } from "../disks/dynamic/disk.js";
import type { Disk } from "../store/disk.js";

/** A volume is attached soon after its creation, because it is created for a pod that waits. */
const LEFTOVER_AFTER_MS = 24 * 60 * 60_000;

/**
 * Returns the disks of volumes that no node ever had. An orchestrator that lost the answer of a creation leaves them, when
 * nobody needs the volume by then.
 */
export function* leftoverVolumes(disks: Iterable<Disk>, incarnation: string, nowMs: number): Generator<Troubled> {
  for (const disk of disks) {
    const { name, metadata, createdAtMs = nowMs } = disk;
    if (metadata.csi_name === undefined || !wasNeverAttached(disk, incarnation)) continue;
    if (nowMs - createdAtMs < LEFTOVER_AFTER_MS) continue;
    const trouble = `no node ever had this volume: if its claim is gone, delete it with \`diskmesh delete ${name}\``;
    yield { kind: "disk", name, trouble, sinceMs: createdAtMs, hasEnded: false };
  }
}

import type { Instance } from "../../store/instance.js";
import type { PersistentDisk } from "../../store/persistent-disk.js";
import type { Snapshot } from "../../store/snapshot.js";

export function intendSnapshot(
  { deployment, group, instanceId, index }: Instance,
  { diskCid, az, cpi }: PersistentDisk,
  intent: Pick<Snapshot, "token" | "takenByTaskId" | "createdAtMs">,
): Snapshot {
  return { ...intent, snapshotCid: "", deployment, group, instanceId, index, diskCid, az, cpi };
}

/** Returns the disk whose snapshot the task takes next; undefined when all snapshots exist. */
export function decideSnapshot(
  instances: readonly Instance[],
  diskOf: (instance: Instance) => PersistentDisk | undefined,
  taken: readonly Snapshot[],
  taskId: number,
): { readonly instance: Instance; readonly disk: PersistentDisk; readonly begun: Snapshot | undefined } | undefined {
  const ofTask = new Map(taken.filter((each) => each.takenByTaskId === taskId).map((each) => [each.instanceId, each]));
  for (const instance of instances) {
    const disk = diskOf(instance);
    const begun = ofTask.get(instance.instanceId);
    if (disk !== undefined && disk.diskCid !== "" && (begun === undefined || begun.snapshotCid === ""))
      return { instance, disk, begun };
  }
  return undefined;
}

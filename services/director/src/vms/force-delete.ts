import { DomainError, messageOf } from "@diskmesh/domain";
import { putPossibleOrphan } from "../cpi/make-once.js";
import { listedBy } from "../cpi/possible-orphan.js";
import { deleteIfThere } from "../disks/dynamic/delete.js";
import { dynamicDisks } from "../disks/dynamic/disk.js";
import { forgetOwedRemovals } from "../disks/forget.js";
import { persistentDiskOrphaned, persistentDisks } from "../disks/persistent/persistent-disk.js";
import { noteOrphaned } from "../disks/persistent/persistent-disk-steps.js";
import { otherDiskOf, persistentDiskOf } from "../instances/recorded-deployments.js";
import type { Disk } from "../store/disk.js";
import { formatInstance, type Instance } from "../store/instance.js";
import type { PersistentDisk } from "../store/persistent-disk.js";
import type { PossibleOrphan } from "../store/possible-orphan.js";
import type { DirectorTransaction } from "../store/schema.js";
import type { TaskRun } from "../tasks/task-run.js";
import type { VmJobContext } from "./context.js";
import { deleteInstance, forgetBoshRegistrySettings } from "./vm-steps.js";

/**
 * Deletes the instance with its VM and disks as far as possible. Objects that cannot be deleted are recorded as
 * possible orphans.
 */
export async function deleteInstanceByForce(context: VmJobContext, run: TaskRun, instance: Instance): Promise<void> {
  await orElse(run, deleteInstance(context, run, instance), async (reason) => {
    const orphaned = await context.tablet.transact((tx) => {
      const current = tx.instances.get(instance.instanceId);
      return current === undefined ? [] : leaveBehind(context, run, tx, current, reason);
    });
    for (const disk of orphaned) noteOrphaned(context, run, disk);
    return `vm \`${instance.vmCid || instance.vmToken}\` of ${formatInstance(instance)}`;
  });
}

export async function deleteDiskByForce(context: VmJobContext, run: TaskRun, { name }: Disk): Promise<void> {
  await orElse(run, deleteIfThere(context, run, name), async (reason) => {
    await context.tablet.transact((tx) => {
      const disk = tx.disks.get(name);
      if (disk === undefined) return;
      const { token, diskCid: cid, cpi, az, deployment } = disk;
      const madeFor = `dynamic disk ${name}`;
      putPossibleOrphan(context, run, tx, { token, kind: "disk", cid, cpi, az, deployment, madeFor, reason });
      tx.disks.delete(name);
    });
    return `dynamic disk \`${name}\``;
  });
}

/** Returns the objects that the task left behind, as text for its result; empty for none. */
export function leftBehindBy(taskId: number, orphans: Iterable<PossibleOrphan>): string {
  const left = [...orphans].filter((orphan) => orphan.taskId === taskId);
  if (left.length === 0) return "";
  const shown = left.map(({ kind, cid, token, madeFor }) => `${kind} \`${cid || token}\` of ${madeFor}`);
  return `; possibly left behind (see ${listedBy(left)}): ${shown.join(", ")}`;
}

async function orElse(run: TaskRun, work: Promise<unknown>, leave: (reason: string) => Promise<string>): Promise<void> {
  try {
    await work;
  } catch (error) {
    // A task that must stop stops here, also when it deletes by force.
    run.checkpoint();
    if (!(error instanceof DomainError)) throw error;
    const task = await leave(messageOf(error));
    run.event({ stage: "Leaving behind", task, state: "failed", message: messageOf(error) });
  }
}

/**
 * Deletes the instance's record and records possible orphans. Returns the persistent disks, which become orphans
 * although the VM may still have them attached.
 */
function leaveBehind(
  context: VmJobContext,
  run: TaskRun,
  tx: DirectorTransaction,
  instance: Instance,
  reason: string,
): readonly PersistentDisk[] {
  const { instanceId, vmCid, vmToken, agentId, cpi, az, deployment } = instance;
  const madeFor = formatInstance(instance);
  const disks = [persistentDiskOf(tx, instanceId), otherDiskOf(tx, instanceId)].filter((each) => each !== undefined);
  const names = disks.map((disk) => disk.diskCid || disk.diskId);
  const why = disks.length === 0 ? reason : `${reason}; it may still have persistent disk ${names.join(" and ")}`;
  if (vmCid !== "" || vmToken !== "")
    putPossibleOrphan(context, run, tx, {
      ...{ token: vmToken || vmCid, kind: "vm", cid: vmCid, cpi, az, deployment, madeFor, reason: why },
    });
  for (const attached of [...tx.disks.by("byInstance", instanceId)])
    tx.disks.put(dynamicDisks.detached(dynamicDisks.moved(attached, "intend_detach")));
  forgetBoshRegistrySettings(tx, instance);
  forgetOwedRemovals(tx, agentId);
  tx.instances.delete(instanceId);
  return disks.flatMap((disk) => {
    if (disk.state === "creating") {
      const { diskId: token } = disk;
      putPossibleOrphan(context, run, tx, { token, kind: "disk", cpi: disk.cpi, az, deployment, madeFor, reason });
      tx.persistentDisks.delete(token);
      return [];
    }
    const isFree = disk.state === "detached";
    const free = isFree ? disk : persistentDisks.detached(persistentDisks.moved(disk, "intend_detach"));
    tx.persistentDisks.put(persistentDiskOrphaned(free, context.clock.nowMs()));
    return [free];
  });
}

import { NotFoundError } from "@diskmesh/domain";
import { cpisOfStep, recorded } from "../../cpi/cpi-target.js";
import type { LockName } from "../../locks/locks.js";
import type { DirectorTables } from "../../store/schema.js";
import { type Snapshot, snapshotKey } from "../../store/snapshot.js";
import type { JobOf } from "../../store/task.js";
import type { Planner } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";

export const deleteSnapshots: Planner<"delete_snapshots", DiskJobContext> = (context, job, tables) => {
  const [snapshot] = subjects(tables, job);
  if (snapshot === undefined)
    return { locks: [], cpis: [], run: async () => `the snapshots of deployment \`${job.deployment}\` are deleted` };
  const locks: LockName[] = [{ type: "instance", resource: snapshot.instanceId }];
  return {
    locks,
    ...cpisOfStep(context, tables, snapshot.cpi),
    run: async (run) => {
      await deleteSnapshot(context, run, snapshot);
      return job.snapshotCid === "" ? undefined : `deleted snapshot \`${job.snapshotCid}\``;
    },
  };
};

function subjects(tables: DirectorTables, { deployment, snapshotCid }: JobOf<"delete_snapshots">): Snapshot[] {
  const taken = [...tables.snapshots.by("byDeployment", deployment)].filter((each) => each.snapshotCid !== "");
  if (snapshotCid === "") return taken;
  const named = taken.filter((each) => each.snapshotCid === snapshotCid);
  if (named.length === 0)
    throw new NotFoundError(`snapshot \`${snapshotCid}\` not found in deployment \`${deployment}\``, {
      about: { snapshot_cid: snapshotCid },
    });
  return named;
}

async function deleteSnapshot(context: DiskJobContext, run: TaskRun, snapshot: Snapshot): Promise<void> {
  const { snapshotCid } = snapshot;
  await run.stage("Deleting snapshots", snapshotCid, async () => {
    await context.cpi.call("deleteSnapshot", recorded(snapshot), { snapshotCid }, run);
    await context.tablet.transact((tx) => tx.snapshots.delete(snapshotKey(snapshot)));
  });
}

import { NotFoundError } from "@diskmesh/domain";
import { cpisOfStep } from "../../cpi/cpi-target.js";
import { deleteObject } from "../../cpi/delete-object.js";
import { cpisOfDeletion, deleteOrphan } from "../../cpi/delete-orphan.js";
import { putPossibleOrphan } from "../../cpi/make-once.js";
import { type DeletableOrphan, deletableOrphans } from "../../cpi/possible-orphan.js";
import type { LockName } from "../../locks/locks.js";
import { formatInstance } from "../../store/instance.js";
import type { DirectorTables } from "../../store/schema.js";
import { type Snapshot, snapshotKey } from "../../store/snapshot.js";
import type { JobOf } from "../../store/task.js";
import type { Planner } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";

export const deleteSnapshots: Planner<"delete_snapshots", DiskJobContext> = (context, job, tables) => {
  const [orphan] = orphansOf(tables, job);
  const [snapshot] = orphan === undefined ? subjects(tables, job) : [];
  if (orphan !== undefined)
    return {
      locks: [],
      ...cpisOfDeletion(context, tables, orphan.cpi),
      run: (run) => run.stage("Deleting snapshots", orphan.cid, () => deleteLeft(context, run, orphan)),
    };
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

/** Returns the possible orphan with the wanted CID, unless a snapshot with the CID is recorded. */
function orphansOf(tables: DirectorTables, { deployment, snapshotCid: cid }: JobOf<"delete_snapshots">) {
  if (cid === "" || tables.snapshots.count("byCid", cid) > 0) return [];
  const left = deletableOrphans(tables.possibleOrphans.entries(), { kind: "snapshot", cid });
  return left.filter((orphan) => orphan.deployment === deployment);
}

async function deleteLeft(context: DiskJobContext, run: TaskRun, orphan: DeletableOrphan): Promise<string> {
  const isFound = await deleteOrphan(context, run, orphan);
  return isFound ? `deleted snapshot \`${orphan.cid}\`` : `snapshot \`${orphan.cid}\` was already deleted`;
}

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
  const { token, snapshotCid: cid, cpi, az, deployment } = snapshot;
  await run.stage("Deleting snapshots", cid, async () => {
    const { mayExist: reason } = await deleteObject(context, run, { kind: "snapshot", cid, cpi, az });
    await context.tablet.transact((tx) => {
      tx.snapshots.delete(snapshotKey(snapshot));
      if (reason === undefined) return;
      const place = { cpi, az, deployment, madeFor: formatInstance(snapshot), reason };
      putPossibleOrphan(context, run, tx, { token, kind: "snapshot", cid, ...place });
    });
  });
}

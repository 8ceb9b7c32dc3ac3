import { randomUUID } from "node:crypto";
import { InvalidStateError, NotFoundError, NotImplementedError } from "@diskmesh/domain";
import { manifestOf } from "../../configs/recorded-manifest.js";
import { CpiCallError } from "../../cpi/cpi-error.js";
import { cpisOfStep, recorded } from "../../cpi/cpi-target.js";
import { makeOnce, recordMade } from "../../cpi/make-once.js";
import { instancesOf, persistentDiskOf } from "../../instances/recorded-deployments.js";
import type { LockName } from "../../locks/locks.js";
import { formatInstance, type Instance } from "../../store/instance.js";
import type { PersistentDisk } from "../../store/persistent-disk.js";
import type { DirectorTables, DirectorTransaction } from "../../store/schema.js";
import { type Snapshot, snapshotKey } from "../../store/snapshot.js";
import type { JobOf } from "../../store/task.js";
import { CODES, coded } from "../../tasks/bosh-codes.js";
import type { Planner } from "../../tasks/job.js";
import type { TaskRun } from "../../tasks/task-run.js";
import type { DiskJobContext } from "../context.js";
import { decideSnapshot, intendSnapshot } from "./snapshot.js";

/** Takes snapshots of the persistent disks of a deployment or of one instance, one by one. */
export const takeSnapshots: Planner<"take_snapshots", DiskJobContext> = (context, job, tables, taskId) => {
  const { deployment } = job;
  const instances = subjects(tables, job);
  const taken = [...tables.snapshots.by("byDeployment", deployment)];
  const next = decideSnapshot(instances, ({ instanceId }) => persistentDiskOf(tables, instanceId), taken, taskId);
  const locks: LockName[] = next === undefined ? [] : [{ type: "instance", resource: next.instance.instanceId }];
  return {
    locks,
    ...cpisOfStep(context, tables, next?.disk.cpi),
    run: async (run) => {
      if (next === undefined) return resultOf(taken.filter(({ takenByTaskId }) => takenByTaskId === taskId));
      await take(context, run, next);
      return undefined;
    },
  };
};

function subjects(tables: DirectorTables, { deployment, instanceId }: JobOf<"take_snapshots">): readonly Instance[] {
  const all = instancesOf(tables, deployment);
  const instances = instanceId === "" ? all : all.filter((instance) => instance.instanceId === instanceId);
  if (instances.length === 0)
    throw coded(
      CODES.instanceNotFound,
      new NotFoundError(`there is no instance${instanceId && ` \`${instanceId}\``} in deployment \`${deployment}\``),
    );
  if (!instances.some((instance) => persistentDiskOf(tables, instance.instanceId) !== undefined))
    throw new InvalidStateError(
      `${instanceId && `instance \`${instanceId}\` of `}deployment \`${deployment}\` has no persistent disk`,
    );
  return instances;
}

function resultOf(taken: readonly Snapshot[]): string {
  return `snapshots taken: ${taken.map(({ snapshotCid }) => `\`${snapshotCid}\``).join(", ")}`;
}

async function take(
  context: DiskJobContext,
  run: TaskRun,
  { instance, disk, begun }: { instance: Instance; disk: PersistentDisk; begun: Snapshot | undefined },
): Promise<void> {
  const { diskCid, cpi, az } = disk;
  const madeFor = formatInstance(instance);
  await run.stage("Taking snapshots", `of ${diskCid} of ${madeFor}`, async () => {
    const intent = { token: randomUUID(), takenByTaskId: run.taskId, createdAtMs: context.clock.nowMs() };
    const snapshot = begun ?? intendSnapshot(instance, disk, intent);
    const metadata = await metadataOf(context, instance);
    await context.tablet.transact((tx) => tx.snapshots.put(snapshot));
    const { token, deployment } = snapshot;
    // The CPI contract has no token for snapshots, so an earlier call with an unknown outcome may have created one.
    const making = {
      ...({ token, kind: "snapshot", cpi, az, deployment, madeFor, findsByToken: false } as const),
      begunBefore: begun !== undefined,
      drop: (tx: DirectorTransaction) => void tx.snapshots.delete(snapshotKey(snapshot)),
    };
    const made = await makeOnce(context, run, making, (options) =>
      context.cpi.call("snapshotDisk", recorded(disk), { diskCid, metadata }, run, options),
    ).catch(refusedBy(diskCid));
    if (made === undefined) return;
    const { snapshotCid } = made;
    await recordMade(context, run, making, { cpi, cid: snapshotCid }, (tx) =>
      tx.snapshots.put({ ...snapshot, snapshotCid }),
    );
  });
}

async function metadataOf(context: DiskJobContext, instance: Instance) {
  const { deployment, group, index, instanceId, agentId } = instance;
  const { tags } = await context.tablet.read((tables) => manifestOf(context, tables, deployment));
  const director = { director_name: context.config.name, director_uuid: context.tablet.id };
  return { ...tags, deployment, job: group, index, ...director, agent_id: agentId, instance_id: instanceId };
}

function refusedBy(diskCid: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof CpiCallError && error.isNotImplemented)) throw error;
    throw new NotImplementedError(
      `the CPI of persistent disk \`${diskCid}\` cannot take snapshots (${error.message}): copy the disk's data inside the vm`,
      { cause: error, about: { disk_cid: diskCid } },
    );
  };
}

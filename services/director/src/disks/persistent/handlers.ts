import type {
  DeploymentServiceDefinition,
  ListPersistentDisksRequest,
  ListPersistentDisksResponse,
  ListSnapshotsRequest,
  ListSnapshotsResponse,
  SnapshotServiceDefinition,
} from "@diskmesh/api/director";
import { parseCid, parseOptionalCid } from "@diskmesh/cpi";
import { parseName, parseOptionalName } from "@diskmesh/domain";
import { type Handlers, pageOf, type Serve } from "@diskmesh/rpc";
import { userOf } from "../../audit/asker.js";
import type { PersistentDisk } from "../../store/persistent-disk.js";
import { snapshotKey } from "../../store/snapshot.js";
import type { TaskContext } from "../../tasks/context.js";
import { parseInstanceId } from "../../tasks/parse.js";
import { taskMethod } from "../../tasks/task-method.js";
import { orphanOf } from "./delete-orphaned-disk.js";
import { encodePersistentDisk, encodeSnapshot } from "./wire.js";

export async function listPersistentDisks(
  context: TaskContext,
  request: ListPersistentDisksRequest,
): Promise<ListPersistentDisksResponse> {
  const { items, nextPageToken } = await recordedDisks(context, request);
  return { disks: items.map(encodePersistentDisk), nextPageToken };
}

/** Returns a page of the disks as they are recorded. */
export function recordedDisks(
  { tablet }: Pick<TaskContext, "tablet">,
  request: ListPersistentDisksRequest,
): Promise<{ readonly items: readonly PersistentDisk[]; readonly nextPageToken: string }> {
  const deployment = parseOptionalName("deployment", request.deployment);
  return pageOf(tablet, request, {
    what: "persistent disks",
    rows: ({ persistentDisks: disks }, from) =>
      deployment === undefined ? disks.entries(from) : disks.by("byDeployment", deployment, from),
    keyOf: (disk) => disk.diskId,
    matches: (disk) => !request.orphaned || disk.orphanedAtMs !== null,
    describe: (_, disk) => disk,
  });
}

export async function listSnapshots(
  { tablet }: TaskContext,
  request: ListSnapshotsRequest,
): Promise<ListSnapshotsResponse> {
  const deployment = parseOptionalName("deployment", request.deployment);
  const { items, nextPageToken } = await pageOf(tablet, request, {
    what: "snapshots",
    rows: ({ snapshots }, from) =>
      deployment === undefined ? snapshots.entries(from) : snapshots.by("byDeployment", deployment, from),
    keyOf: snapshotKey,
    // A snapshot without a CID is not listed, because the outcome of its CPI call is still unknown.
    matches: (snapshot) => snapshot.snapshotCid !== "",
    describe: (_, snapshot) => encodeSnapshot(snapshot),
  });
  return { snapshots: [...items], nextPageToken };
}

type Service = Handlers<typeof DeploymentServiceDefinition> & Handlers<typeof SnapshotServiceDefinition>;
type Name = "attachOrphanedDisk" | "orphanPersistentDisk" | "deleteOrphanedDisk" | "takeSnapshots" | "deleteSnapshots";

/** Methods that start a task on persistent disks or snapshots. */
export const persistentDiskTasks: { readonly [Method in Name]: Serve<TaskContext, Service[Method]> } = {
  attachOrphanedDisk: taskMethod("normal", (request) => {
    const diskCid = parseCid("disk", request.diskCid);
    const instanceId = parseInstanceId(request.instanceId);
    return {
      job: { type: "attach_orphaned_disk", diskCid, instanceId },
      description: `attach orphaned disk \`${diskCid}\``,
      deployment: ({ instances }) => instances.get(instanceId)?.deployment ?? "",
    };
  }),
  orphanPersistentDisk: taskMethod("normal", (request) => {
    const diskCid = parseCid("disk", request.diskCid);
    return {
      job: { type: "orphan_persistent_disk", diskCid },
      description: `orphan disk \`${diskCid}\``,
      deployment: ({ persistentDisks }) => [...persistentDisks.by("byCid", diskCid)][0]?.deployment ?? "",
    };
  }),
  deleteOrphanedDisk: taskMethod("normal", (request) => {
    const diskCid = parseCid("disk", request.diskCid);
    return {
      job: { type: "delete_orphaned_disk", diskCid, force: request.force },
      description: `delete orphaned disk \`${diskCid}\``,
      deployment: "",
      // The job repeats the check, because the disk may be attached before the job runs.
      check: (tables) => void orphanOf(tables, diskCid),
    };
  }),
  takeSnapshots: taskMethod("normal", (request, _context, call) => {
    const deployment = parseName("deployment", request.deployment);
    const instanceId = request.instanceId === "" ? "" : parseInstanceId(request.instanceId);
    return {
      job: { type: "take_snapshots", deployment, instanceId },
      description: `take snapshots of deployment \`${deployment}\``,
      deployment,
      // A client that lost the answer repeats the request. The repetition then gets the unended task of the first
      // request.
      joins: ({ job, user }) =>
        job?.type === "take_snapshots" &&
        job.deployment === deployment &&
        job.instanceId === instanceId &&
        user === userOf(call),
    };
  }),
  deleteSnapshots: taskMethod("normal", (request) => {
    const deployment = parseName("deployment", request.deployment);
    const snapshotCid = parseOptionalCid("snapshot", request.snapshotCid);
    const what = snapshotCid === "" ? "snapshots" : `snapshot \`${snapshotCid}\``;
    return {
      job: { type: "delete_snapshots", deployment, snapshotCid },
      description: `delete ${what} of deployment \`${deployment}\``,
      deployment,
    };
  }),
};

import type { DeploymentServiceDefinition, SnapshotServiceDefinition } from "@diskmesh/api/director";
import { parseCid, parseOptionalCid } from "@diskmesh/cpi";
import { parseName } from "@diskmesh/domain";
import type { Handlers, Serve } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { orphanOf } from "../jobs/delete-orphaned-disk.js";
import { userOf } from "../workers/tasks.js";
import { parseInstanceId } from "./parse.js";
import { taskMethod } from "./task-method.js";

type Service = Handlers<typeof DeploymentServiceDefinition> & Handlers<typeof SnapshotServiceDefinition>;
type Name = "attachOrphanedDisk" | "orphanPersistentDisk" | "deleteOrphanedDisk" | "takeSnapshots" | "deleteSnapshots";

/** Each method that starts a task on persistent disks or snapshots. */
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
      job: { type: "delete_orphaned_disk", diskCid },
      description: `delete orphaned disk \`${diskCid}\``,
      deployment: "",
      // Looked at again when it runs: a disk may be attached until then.
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
      // Clients that lost the answer ask again.
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

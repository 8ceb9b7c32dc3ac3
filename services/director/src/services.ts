import {
  ConfigServiceDefinition,
  DeploymentServiceDefinition,
  DynamicDiskServiceDefinition,
  EventServiceDefinition,
  LockServiceDefinition,
  SnapshotServiceDefinition,
  StemcellServiceDefinition,
  TaskServiceDefinition,
  VmServiceDefinition,
} from "@diskmesh/api/director";
import type { Role } from "@diskmesh/domain";
import { allow, offer, type RpcServer } from "@diskmesh/rpc";
import { addAdminService } from "@diskmesh/tablet-admin";
import type { Context } from "./context.js";
import { attachDisk } from "./handlers/attach-disk.js";
import { attachOrphanedDisk } from "./handlers/attach-orphaned-disk.js";
import { cancelTask } from "./handlers/cancel-task.js";
import { createDisk } from "./handlers/create-disk.js";
import { deleteConfig } from "./handlers/delete-config.js";
import { deleteDeployment } from "./handlers/delete-deployment.js";
import { deleteDisk } from "./handlers/delete-disk.js";
import { deleteOrphanedDisk } from "./handlers/delete-orphaned-disk.js";
import { deleteSnapshots } from "./handlers/delete-snapshots.js";
import { deleteStemcell } from "./handlers/delete-stemcell.js";
import { deleteVm } from "./handlers/delete-vm.js";
import { deploy } from "./handlers/deploy.js";
import { detachDisk } from "./handlers/detach-disk.js";
import { diffConfig } from "./handlers/diff-config.js";
import { forgetPossibleOrphan } from "./handlers/forget-possible-orphan.js";
import { getConfig } from "./handlers/get-config.js";
import { getDisk } from "./handlers/get-disk.js";
import { getTask } from "./handlers/get-task.js";
import { getTaskOutput } from "./handlers/get-task-output.js";
import { listConfigs } from "./handlers/list-configs.js";
import { listDeployments } from "./handlers/list-deployments.js";
import { listDisks } from "./handlers/list-disks.js";
import { listEvents } from "./handlers/list-events.js";
import { listInstances } from "./handlers/list-instances.js";
import { listLocks } from "./handlers/list-locks.js";
import { listOwedRemovals } from "./handlers/list-owed-removals.js";
import { listPersistentDisks } from "./handlers/list-persistent-disks.js";
import { listPossibleOrphans } from "./handlers/list-possible-orphans.js";
import { listSnapshots } from "./handlers/list-snapshots.js";
import { listStemcells } from "./handlers/list-stemcells.js";
import { listTasks } from "./handlers/list-tasks.js";
import { provideDisk } from "./handlers/provide-disk.js";
import { resumeTask } from "./handlers/resume-task.js";
import { takeSnapshots } from "./handlers/take-snapshots.js";
import { updateConfig } from "./handlers/update-config.js";
import { uploadStemcell } from "./handlers/upload-stemcell.js";
import { watchTask } from "./handlers/watch-task.js";

const OPERATORS: readonly Role[] = ["operator"];

/**
 * Everything is for operators; nothing else calls a director. `current` throws UnavailableError while this process does
 * not lead.
 */
export function addServices(server: Pick<RpcServer, "addService">, current: () => Context): void {
  offer(server, ConfigServiceDefinition, current, {
    updateConfig: allow(OPERATORS, updateConfig),
    getConfig: allow(OPERATORS, getConfig),
    listConfigs: allow(OPERATORS, listConfigs),
    deleteConfig: allow(OPERATORS, deleteConfig),
    diffConfig: allow(OPERATORS, diffConfig),
  });
  offer(server, DeploymentServiceDefinition, current, {
    deploy: allow(OPERATORS, deploy),
    deleteDeployment: allow(OPERATORS, deleteDeployment),
    listDeployments: allow(OPERATORS, listDeployments),
    listInstances: allow(OPERATORS, listInstances),
    listPersistentDisks: allow(OPERATORS, listPersistentDisks),
    attachOrphanedDisk: allow(OPERATORS, attachOrphanedDisk),
    deleteOrphanedDisk: allow(OPERATORS, deleteOrphanedDisk),
    listPossibleOrphans: allow(OPERATORS, listPossibleOrphans),
    forgetPossibleOrphan: allow(OPERATORS, forgetPossibleOrphan),
  });
  offer(server, DynamicDiskServiceDefinition, current, {
    provideDisk: allow(OPERATORS, provideDisk),
    createDisk: allow(OPERATORS, createDisk),
    attachDisk: allow(OPERATORS, attachDisk),
    detachDisk: allow(OPERATORS, detachDisk),
    deleteDisk: allow(OPERATORS, deleteDisk),
    getDisk: allow(OPERATORS, getDisk),
    listDisks: allow(OPERATORS, listDisks),
    listOwedRemovals: allow(OPERATORS, listOwedRemovals),
  });
  offer(server, TaskServiceDefinition, current, {
    getTask: allow(OPERATORS, getTask),
    listTasks: allow(OPERATORS, listTasks),
    cancelTask: allow(OPERATORS, cancelTask),
    resumeTask: allow(OPERATORS, resumeTask),
    watchTask: allow(OPERATORS, watchTask),
    getTaskOutput: allow(OPERATORS, getTaskOutput),
  });
  offer(server, VmServiceDefinition, current, {
    deleteVm: allow(OPERATORS, deleteVm),
  });
  offer(server, SnapshotServiceDefinition, current, {
    takeSnapshots: allow(OPERATORS, takeSnapshots),
    listSnapshots: allow(OPERATORS, listSnapshots),
    deleteSnapshots: allow(OPERATORS, deleteSnapshots),
  });
  offer(server, StemcellServiceDefinition, current, {
    uploadStemcell: allow(OPERATORS, uploadStemcell),
    listStemcells: allow(OPERATORS, listStemcells),
    deleteStemcell: allow(OPERATORS, deleteStemcell),
  });
  offer(server, EventServiceDefinition, current, {
    listEvents: allow(OPERATORS, listEvents),
  });
  offer(server, LockServiceDefinition, current, {
    listLocks: allow(OPERATORS, listLocks),
  });
  addAdminService(server, current);
}

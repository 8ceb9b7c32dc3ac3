import {
  ConfigServiceService,
  DeploymentServiceService,
  DynamicDiskServiceService,
  LockServiceService,
  StemcellServiceService,
  TaskServiceService,
} from "@diskmesh/api/director";
import type { RpcServer } from "@diskmesh/rpc";
import { addAdminService } from "@diskmesh/tablet-admin";
import type { Context } from "../context.js";
import { attachDisk } from "./attach-disk.js";
import { cancelTask } from "./cancel-task.js";
import { createDisk } from "./create-disk.js";
import { deleteConfig } from "./delete-config.js";
import { deleteDeployment } from "./delete-deployment.js";
import { deleteDisk } from "./delete-disk.js";
import { deleteOrphanedDisk } from "./delete-orphaned-disk.js";
import { deleteStemcell } from "./delete-stemcell.js";
import { deploy } from "./deploy.js";
import { detachDisk } from "./detach-disk.js";
import { diffConfig } from "./diff-config.js";
import { forgetPossibleOrphan } from "./forget-possible-orphan.js";
import { getConfig } from "./get-config.js";
import { getDisk } from "./get-disk.js";
import { getTask } from "./get-task.js";
import { getTaskOutput } from "./get-task-output.js";
import { listConfigs } from "./list-configs.js";
import { listDeployments } from "./list-deployments.js";
import { listDisks } from "./list-disks.js";
import { listInstances } from "./list-instances.js";
import { listLocks } from "./list-locks.js";
import { listPersistentDisks } from "./list-persistent-disks.js";
import { listPossibleOrphans } from "./list-possible-orphans.js";
import { listStemcells } from "./list-stemcells.js";
import { listTasks } from "./list-tasks.js";
import { provideDisk } from "./provide-disk.js";
import { resumeTask } from "./resume-task.js";
import { updateConfig } from "./update-config.js";
import { uploadStemcell } from "./upload-stemcell.js";
import { watchTask } from "./watch-task.js";

/**
 * Everything is for operators; nothing else calls a director. `current` throws UnavailableError while this process does
 * not lead.
 */
export function addServices(server: RpcServer, current: () => Context): void {
  const roles = ["operator"] as const;
  // Bound to the context with each call: another time of leading has another one.
  const bound =
    <Args extends unknown[], Result>(make: (context: Context) => (...args: Args) => Result) =>
    (...args: Args): Result =>
      make(current())(...args);

  server.addService(ConfigServiceService, {
    roles,
    handlers: {
      updateConfig: bound(updateConfig),
      getConfig: bound(getConfig),
      listConfigs: bound(listConfigs),
      deleteConfig: bound(deleteConfig),
      diffConfig: bound(diffConfig),
    },
  });
  server.addService(DeploymentServiceService, {
    roles,
    handlers: {
      deploy: bound(deploy),
      deleteDeployment: bound(deleteDeployment),
      listDeployments: bound(listDeployments),
      listInstances: bound(listInstances),
      listPersistentDisks: bound(listPersistentDisks),
      deleteOrphanedDisk: bound(deleteOrphanedDisk),
      listPossibleOrphans: bound(listPossibleOrphans),
      forgetPossibleOrphan: bound(forgetPossibleOrphan),
    },
  });
  server.addService(DynamicDiskServiceService, {
    roles,
    handlers: {
      provideDisk: bound(provideDisk),
      createDisk: bound(createDisk),
      attachDisk: bound(attachDisk),
      detachDisk: bound(detachDisk),
      deleteDisk: bound(deleteDisk),
      getDisk: bound(getDisk),
      listDisks: bound(listDisks),
    },
  });
  server.addService(TaskServiceService, {
    roles,
    handlers: {
      getTask: bound(getTask),
      listTasks: bound(listTasks),
      cancelTask: bound(cancelTask),
      resumeTask: bound(resumeTask),
      watchTask: bound(watchTask),
      getTaskOutput: bound(getTaskOutput),
    },
  });
  server.addService(StemcellServiceService, {
    roles,
    handlers: {
      uploadStemcell: bound(uploadStemcell),
      listStemcells: bound(listStemcells),
      deleteStemcell: bound(deleteStemcell),
    },
  });
  addAdminService(server, current);
  server.addService(LockServiceService, { roles, handlers: { listLocks: bound(listLocks) } });
}

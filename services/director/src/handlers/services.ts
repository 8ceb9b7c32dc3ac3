import {
  ConfigServiceService,
  DeploymentServiceService,
  DynamicDiskServiceService,
  LockServiceService,
  StemcellServiceService,
  TaskServiceService,
} from "@diskmesh/api/director";
import type { RpcServer } from "@diskmesh/rpc";
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
import { listStemcells } from "./list-stemcells.js";
import { listTasks } from "./list-tasks.js";
import { provideDisk } from "./provide-disk.js";
import { updateConfig } from "./update-config.js";
import { uploadStemcell } from "./upload-stemcell.js";
import { watchTask } from "./watch-task.js";

/** Everything is for operators; nothing else calls a director. */
export function addServices(server: RpcServer, context: Context): void {
  const roles = ["operator"] as const;
  server.addService(ConfigServiceService, {
    roles,
    handlers: {
      updateConfig: updateConfig(context),
      getConfig: getConfig(context),
      listConfigs: listConfigs(context),
      deleteConfig: deleteConfig(context),
      diffConfig: diffConfig(context),
    },
  });
  server.addService(DeploymentServiceService, {
    roles,
    handlers: {
      deploy: deploy(context),
      deleteDeployment: deleteDeployment(context),
      listDeployments: listDeployments(context),
      listInstances: listInstances(context),
      listPersistentDisks: listPersistentDisks(context),
      deleteOrphanedDisk: deleteOrphanedDisk(context),
    },
  });
  server.addService(DynamicDiskServiceService, {
    roles,
    handlers: {
      provideDisk: provideDisk(context),
      createDisk: createDisk(context),
      attachDisk: attachDisk(context),
      detachDisk: detachDisk(context),
      deleteDisk: deleteDisk(context),
      getDisk: getDisk(context),
      listDisks: listDisks(context),
    },
  });
  server.addService(TaskServiceService, {
    roles,
    handlers: {
      getTask: getTask(context),
      listTasks: listTasks(context),
      cancelTask: cancelTask(context),
      watchTask: watchTask(context),
      getTaskOutput: getTaskOutput(context),
    },
  });
  server.addService(StemcellServiceService, {
    roles,
    handlers: {
      uploadStemcell: uploadStemcell(context),
      listStemcells: listStemcells(context),
      deleteStemcell: deleteStemcell(context),
    },
  });
  server.addService(LockServiceService, { roles, handlers: { listLocks: listLocks(context) } });
}

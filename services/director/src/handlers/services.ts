import {
  ConfigServiceService,
  DeploymentServiceService,
  DynamicDiskServiceService,
  LockServiceService,
  TaskServiceService,
} from "@diskmesh/api/director";
import type { RpcServer } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { attachDisk } from "./attach-disk.js";
import { cancelTask } from "./cancel-task.js";
import { createDisk } from "./create-disk.js";
import { deleteDeployment } from "./delete-deployment.js";
import { deleteDisk } from "./delete-disk.js";
import { deploy } from "./deploy.js";
import { detachDisk } from "./detach-disk.js";
import { getConfig } from "./get-config.js";
import { getDisk } from "./get-disk.js";
import { getTask } from "./get-task.js";
import { listConfigs } from "./list-configs.js";
import { listDeployments } from "./list-deployments.js";
import { listDisks } from "./list-disks.js";
import { listInstances } from "./list-instances.js";
import { listLocks } from "./list-locks.js";
import { listTasks } from "./list-tasks.js";
import { provideDisk } from "./provide-disk.js";
import { updateConfig } from "./update-config.js";
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
    },
  });
  server.addService(DeploymentServiceService, {
    roles,
    handlers: {
      deploy: bound(deploy),
      deleteDeployment: bound(deleteDeployment),
      listDeployments: bound(listDeployments),
      listInstances: bound(listInstances),
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
      watchTask: bound(watchTask),
    },
  });
  server.addService(LockServiceService, { roles, handlers: { listLocks: bound(listLocks) } });
}

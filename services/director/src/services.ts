import {
  ConfigServiceDefinition,
  DeploymentServiceDefinition,
  DynamicDiskServiceDefinition,
  EventServiceDefinition,
  type GetConfigRequest,
  type GetTaskOutputRequest,
  LifecycleServiceDefinition,
  LockServiceDefinition,
  ProblemServiceDefinition,
  ResurrectionServiceDefinition,
  SnapshotServiceDefinition,
  StemcellServiceDefinition,
  TaskOutputType,
  TaskServiceDefinition,
  VendorPassthruServiceDefinition,
  VmServiceDefinition,
} from "@diskmesh/api/director";
import { allow, allowChange, type CallContext, type OfferedMethod, offer, type RpcServer, scoped } from "@diskmesh/rpc";
import { addAdminService, type ProcessReport } from "@diskmesh/tablet-admin";
import { forgetAgentAuthority, listAgentAuthorities, listAgentCertificates } from "./agents/handlers.js";
import { askerOf } from "./audit/asker.js";
import { listEvents } from "./audit/handlers.js";
import { checkRole, type Operation, POLICY, type Rule } from "./config/policy.js";
import { CPI } from "./configs/cpi-configs.js";
import { diffConfig } from "./configs/diff-config.js";
import { deleteConfig, getConfig, listConfigs } from "./configs/handlers.js";
import { updateConfig } from "./configs/update-config.js";
import { forgetPossibleOrphan, listPossibleOrphans } from "./cpi/handlers.js";
import { deploymentTasks, listDeployments } from "./deployments/handlers.js";
import { getCapacity } from "./disks/dynamic/capacity.js";
import { dynamicDiskTasks, getDisk, listDisks } from "./disks/dynamic/handlers.js";
import { listOwedRemovals } from "./disks/handlers.js";
import { listPersistentDisks, listSnapshots, persistentDiskTasks } from "./disks/persistent/handlers.js";
import { explain } from "./explain/handlers.js";
import { getResurrection, listProblems, problemTasks, updateResurrection } from "./health/handlers.js";
import type { Context } from "./http/context.js";
import { downloadLogs, fetchLogs } from "./instance-logs/handlers.js";
import { ignore, listInstances, unignore } from "./instances/handlers.js";
import { listLocks } from "./locks/handlers.js";
import { listTroubles } from "./page/troubles.js";
import { listStemcells, stemcellTasks } from "./stemcells/handlers.js";
import { uploadStemcell } from "./stemcells/upload-stemcell.js";
import { cancelTask, getTask, getTaskOutput, listTasks, resumeTask, watchTask } from "./tasks/handlers.js";
import { callMethod, getNode, listDrivers, listMethods } from "./vendor-methods/handlers.js";
import { vmTasks } from "./vms/handlers.js";

/** Offers a method by the operation's rule. */
function offered<Serving>(operation: Operation, method: OfferedMethod<Serving>): OfferedMethod<Serving> {
  const { isScoped }: Rule = POLICY[operation];
  return isScoped ? scoped(method) : method;
}

const permit = <Handler>(operation: Operation, handler: Handler) =>
  offered(operation, allow(POLICY[operation].roles, handler));

/**
 * Allows the operation's roles to make a call that may change something. Records an event when the handler refuses the
 * call. A permitted call is recorded by its task or transaction.
 */
const permitChange = <Request, Response>(
  operation: Operation,
  handler: (context: Context, request: Request, call: CallContext) => Promise<Response>,
) =>
  offered(
    operation,
    allowChange(POLICY[operation].roles, async (context: Context, request: Request, call: CallContext) => {
      try {
        return await handler(context, request, call);
      } catch (error) {
        context.refusals.note(operation, call, request, error);
        throw error;
      }
    }),
  );

/**
 * Checks the caller's role for the operation that the request needs in addition to the method's own operation.
 * `operationOf` returns undefined when the request needs none.
 */
const permitting = <Request, Response>(
  operationOf: (request: Request) => Operation | undefined,
  handler: (context: Context, request: Request, call: CallContext) => Promise<Response>,
) => {
  return async (context: Context, request: Request, call: CallContext): Promise<Response> => {
    const operation = operationOf(request);
    if (operation !== undefined) checkRole(operation, call.identity);
    return handler(context, request, call);
  };
};
/** Records a backup as an event, because a backup reads all data and changes nothing that would reveal it. */
const noteBackup = ({ events }: Context, call: CallContext) =>
  events.record({ action: "create", objectType: "backup", objectName: "" }, { ...askerOf(call), answer: "OK" });

const configSecrets = ({ type }: GetConfigRequest) => (type === CPI ? "readCpiConfigs" : undefined);
const outputSecrets = ({ type }: GetTaskOutputRequest) =>
  type === TaskOutputType.DEBUG || type === TaskOutputType.CPI ? "getTaskDebugOutput" : undefined;

/**
 * Adds the director's gRPC services, which are for operators only. `current` throws UnavailableError while this process
 * does not lead.
 */
export function addServices(
  server: Pick<RpcServer, "addService">,
  current: () => Context,
  report?: () => ProcessReport,
): void {
  offer(server, ConfigServiceDefinition, current, {
    updateConfig: permitChange("updateConfig", updateConfig),
    getConfig: permit("getConfig", permitting(configSecrets, getConfig)),
    listConfigs: permit("listConfigs", listConfigs),
    deleteConfig: permitChange("deleteConfig", deleteConfig),
    diffConfig: permit("diffConfig", diffConfig),
  });
  offer(server, DeploymentServiceDefinition, current, {
    deploy: permitChange("deploy", deploymentTasks.deploy),
    deleteDeployment: permitChange("deleteDeployment", deploymentTasks.deleteDeployment),
    listDeployments: permit("listDeployments", listDeployments),
    listInstances: permit("listInstances", listInstances),
    listPersistentDisks: permit("listPersistentDisks", listPersistentDisks),
    attachOrphanedDisk: permitChange("attachOrphanedDisk", persistentDiskTasks.attachOrphanedDisk),
    orphanPersistentDisk: permitChange("orphanPersistentDisk", persistentDiskTasks.orphanPersistentDisk),
    deleteOrphanedDisk: permitChange("deleteOrphanedDisk", persistentDiskTasks.deleteOrphanedDisk),
    listPossibleOrphans: permit("listPossibleOrphans", listPossibleOrphans),
    forgetPossibleOrphan: permitChange("forgetPossibleOrphan", forgetPossibleOrphan),
  });
  offer(server, DynamicDiskServiceDefinition, current, {
    provideDisk: permitChange("provideDisk", dynamicDiskTasks.provideDisk),
    createDisk: permitChange("createDisk", dynamicDiskTasks.createDisk),
    attachDisk: permitChange("attachDisk", dynamicDiskTasks.attachDisk),
    resizeDisk: permitChange("resizeDisk", dynamicDiskTasks.resizeDisk),
    setDiskLimits: permitChange("setDiskLimits", dynamicDiskTasks.setDiskLimits),
    getCapacity: permit("getCapacity", getCapacity),
    detachDisk: permitChange("detachDisk", dynamicDiskTasks.detachDisk),
    deleteDisk: permitChange("deleteDisk", dynamicDiskTasks.deleteDisk),
    getDisk: permit("getDisk", getDisk),
    listDisks: permit("listDisks", listDisks),
    listOwedRemovals: permit("listOwedRemovals", listOwedRemovals),
  });
  offer(server, TaskServiceDefinition, current, {
    getTask: permit("getTask", getTask),
    listTasks: permit("listTasks", listTasks),
    cancelTask: permitChange("cancelTask", cancelTask),
    resumeTask: permitChange("resumeTask", resumeTask),
    watchTask: permit("watchTask", watchTask),
    getTaskOutput: permit("getTaskOutput", permitting(outputSecrets, getTaskOutput)),
  });
  offer(server, VmServiceDefinition, current, {
    deleteVm: permitChange("deleteVm", vmTasks.deleteVm),
    fetchLogs: permitChange("fetchLogs", fetchLogs),
    downloadLogs: permit("fetchLogs", downloadLogs),
    listAgentCertificates: permit("listAgentCertificates", listAgentCertificates),
    listAgentAuthorities: permit("listAgentAuthorities", listAgentAuthorities),
    forgetAgentAuthority: permitChange("forgetAgentAuthority", forgetAgentAuthority),
  });
  offer(server, SnapshotServiceDefinition, current, {
    takeSnapshots: permitChange("takeSnapshots", persistentDiskTasks.takeSnapshots),
    listSnapshots: permit("listSnapshots", listSnapshots),
    deleteSnapshots: permitChange("deleteSnapshots", persistentDiskTasks.deleteSnapshots),
  });
  offer(server, StemcellServiceDefinition, current, {
    uploadStemcell: permitChange("uploadStemcell", uploadStemcell),
    listStemcells: permit("listStemcells", listStemcells),
    deleteStemcell: permitChange("deleteStemcell", stemcellTasks.deleteStemcell),
  });
  offer(server, EventServiceDefinition, current, {
    listEvents: permit("listEvents", listEvents),
  });
  offer(server, ProblemServiceDefinition, current, {
    scanDeployment: permitChange("scanDeployment", problemTasks.scanDeployment),
    listProblems: permit("listProblems", listProblems),
    resolveProblems: permitChange("resolveProblems", problemTasks.resolveProblems),
  });
  offer(server, ResurrectionServiceDefinition, current, {
    updateResurrection: permitChange("updateResurrection", updateResurrection),
    getResurrection: permit("getResurrection", getResurrection),
  });
  offer(server, LifecycleServiceDefinition, current, {
    stop: permitChange("stopInstances", deploymentTasks.stop),
    start: permitChange("startInstances", deploymentTasks.start),
    restart: permitChange("restartInstances", deploymentTasks.restart),
    recreate: permitChange("recreateInstances", deploymentTasks.recreate),
    ignore: permitChange("ignoreInstances", ignore),
    unignore: permitChange("ignoreInstances", unignore),
  });
  offer(server, LockServiceDefinition, current, {
    listLocks: permit("listLocks", listLocks),
  });
  offer(server, VendorPassthruServiceDefinition, current, {
    listMethods: permit("readByVendorMethod", listMethods),
    // callMethod itself records all its events, including refusals.
    callMethod: allowChange(POLICY.adminByVendorMethod.roles, callMethod),
    getNode: permit("readByVendorMethod", getNode),
    listDrivers: permit("readByVendorMethod", listDrivers),
  });
  addAdminService(server, current, { explain, listTroubles }, { service: "director", report, noteBackup });
}

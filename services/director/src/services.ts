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
  type ReportCsiDriverRequest,
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
import { getDynamicDiskCapacity } from "./disks/dynamic/capacity.js";
import { dynamicDiskTasks, getDynamicDisk, listDynamicDisks } from "./disks/dynamic/handlers.js";
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
import { createMethodLink } from "./vendor-methods/method-links.js";
import { vmTasks } from "./vms/handlers.js";

/** Methods whose operation has another name; the operation of any other method has the method's name. */
const OPERATIONS = {
  start: "startInstances",
  stop: "stopInstances",
  restart: "restartInstances",
  recreate: "recreateInstances",
  ignore: "ignoreInstances",
  unignore: "ignoreInstances",
  downloadLogs: "fetchLogs",
  listMethods: "readByVendorMethod",
  getNode: "readByVendorMethod",
  listDrivers: "readByVendorMethod",
  createMethodLink: "adminByVendorMethod",
} as const satisfies Readonly<Record<string, Operation>>;

/** Names of methods that change no state. A call of any other method is logged, and its refusal is an event. */
const READS = /^(get|list|watch|diff|download|report)[A-Z]/;

type Serving = (context: Context, request: unknown, call: CallContext) => unknown;

/** Returns the handlers as methods that the roles of their operations may call. */
function permitted<Handlers extends object>(
  handlers: Handlers & Readonly<Record<Exclude<keyof Handlers, Operation | keyof typeof OPERATIONS>, never>>,
) {
  const methods = Object.entries(handlers as Readonly<Record<string, Serving>>).map(([name, serve]) => {
    const operation = ((OPERATIONS as Readonly<Record<string, Operation>>)[name] ?? name) as Operation;
    const { roles, isScoped }: Rule = POLICY[operation];
    const method = READS.test(name) ? allow(roles, serve) : allowChange(roles, notingRefusals(operation, serve));
    return [name, isScoped ? scoped(method) : method];
  });
  return Object.fromEntries(methods) as { readonly [Name in keyof Handlers]: OfferedMethod<Handlers[Name]> };
}

/** Records an event when the handler refuses the call. A permitted call is recorded by its task or transaction. */
function notingRefusals(operation: Operation, serve: Serving): Serving {
  return async (context, request, call) => {
    try {
      return await serve(context, request, call);
    } catch (error) {
      context.refusals.note(operation, call, request as object, error);
      throw error;
    }
  };
}

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

/** The methods of all services, whose names differ. */
const METHODS = {
  ...permitted({
    ...deploymentTasks,
    ...dynamicDiskTasks,
    ...persistentDiskTasks,
    ...problemTasks,
    ...stemcellTasks,
    ...vmTasks,
    updateConfig,
    getConfig: permitting(configSecrets, getConfig),
    listConfigs,
    deleteConfig,
    diffConfig,
    listDeployments,
    listInstances,
    listPersistentDisks,
    listPossibleOrphans,
    forgetPossibleOrphan,
    getDynamicDiskCapacity,
    getDynamicDisk,
    listDynamicDisks,
    listOwedRemovals,
    reportCsiDriver: async ({ csiDrivers }: Context, request: ReportCsiDriverRequest) => {
      csiDrivers.note(request);
      return {};
    },
    getTask,
    listTasks,
    cancelTask,
    resumeTask,
    watchTask,
    getTaskOutput: permitting(outputSecrets, getTaskOutput),
    fetchLogs,
    downloadLogs,
    listAgentCertificates,
    listAgentAuthorities,
    forgetAgentAuthority,
    listSnapshots,
    uploadStemcell,
    listStemcells,
    listEvents,
    listProblems,
    updateResurrection,
    getResurrection,
    ignore,
    unignore,
    listLocks,
    listMethods,
    getNode,
    listDrivers,
    createMethodLink,
  }),
  // callMethod itself records all its events, including refusals.
  callMethod: allowChange(POLICY.adminByVendorMethod.roles, callMethod),
};

/**
 * Adds the director's gRPC services, which are for operators only. `current` throws UnavailableError while this process
 * does not lead.
 */
export function addServices(
  server: Pick<RpcServer, "addService">,
  current: () => Context,
  report?: () => ProcessReport,
): void {
  offer(server, ConfigServiceDefinition, current, METHODS);
  offer(server, DeploymentServiceDefinition, current, METHODS);
  offer(server, DynamicDiskServiceDefinition, current, METHODS);
  offer(server, TaskServiceDefinition, current, METHODS);
  offer(server, VmServiceDefinition, current, METHODS);
  offer(server, SnapshotServiceDefinition, current, METHODS);
  offer(server, StemcellServiceDefinition, current, METHODS);
  offer(server, EventServiceDefinition, current, METHODS);
  offer(server, ProblemServiceDefinition, current, METHODS);
  offer(server, ResurrectionServiceDefinition, current, METHODS);
  offer(server, LifecycleServiceDefinition, current, METHODS);
  offer(server, LockServiceDefinition, current, METHODS);
  offer(server, VendorPassthruServiceDefinition, current, METHODS);
  addAdminService(server, current, { explain, listTroubles }, { service: "director", report, noteBackup });
}

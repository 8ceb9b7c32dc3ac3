import type {
  DynamicDisk,
  DynamicDiskServiceDefinition,
  GetDynamicDiskRequest,
  GetDynamicDiskResponse,
  ListDynamicDisksRequest,
  ListDynamicDisksResponse,
  Task,
} from "@diskmesh/api/director";
import type { Trouble } from "@diskmesh/api/registry";
import { parseCid } from "@diskmesh/cpi";
import { bytesText, MIB_BYTES, parseHostId, parseIoLimits, parseOptionalName } from "@diskmesh/domain";
import { type CallContext, type Handlers, pageOf, type Serve } from "@diskmesh/rpc";
import { scopeOf } from "../../audit/asker.js";
import { coversDeployment, coversDisk, diskIn, instanceIn, rowsIn } from "../../instances/scope.js";
import type { Disk } from "../../store/disk.js";
import type { DirectorTables } from "../../store/schema.js";
import type { Scope } from "../../store/scope.js";
import type { WantedPlace } from "../../store/task.js";
import type { TaskContext } from "../../tasks/context.js";
import { parseDiskName, parseInstanceId, parseSizeMib } from "../../tasks/parse.js";
import { type TaskMethod, taskMethod } from "../../tasks/task-method.js";
import { ofStarted, type WantedTask } from "../../tasks/tasks.js";
import { diskNotFound } from "./decisions.js";
import {
  parseExportKind,
  parseMeantAttachment,
  parseMetadata,
  parseNewPlace,
  parseOnHostSilence,
  parsePlace,
  parsePool,
  refuseUnlessEnabled,
} from "./parse.js";
import { encodeDisk } from "./wire.js";

type Service = Handlers<typeof DynamicDiskServiceDefinition>;
type Name =
  | "provideDynamicDisk"
  | "createDynamicDisk"
  | "attachDynamicDisk"
  | "resizeDynamicDisk"
  | "setDynamicDiskLimits"
  | "detachDynamicDisk"
  | "deleteDynamicDisk"
  | "undeleteDynamicDisk";

/** Methods that start a task on a dynamic disk, with the task's job, description and deployment. */
export const dynamicDiskTasks: { readonly [Method in Name]: Serve<TaskContext, Service[Method]> } = {
  provideDynamicDisk: answeringDisk((request, scope) => {
    const diskName = parseDiskName(request.diskName);
    const place = parsePlace(request);
    const pool = parsePool(request, place.hostId !== undefined);
    const sizeMib = parseSizeMib(request.sizeBytes);
    const metadata = parseMetadata(request.metadata);
    return {
      job: { type: "provide_dynamic_disk", diskName, ...place, pool, sizeMib, metadata, ...readOnlyOf(request) },
      description: `provide dynamic disk \`${diskName}\` for ${formatPlace(place)}`,
      deployment: deploymentOfInstance(place.instanceId, scope),
    };
  }),
  createDynamicDisk: answeringDisk((request, scope) => {
    const diskName = parseDiskName(request.diskName);
    const place = parseNewPlace(request);
    const { deployment } = place;
    const pool = parsePool(request, deployment === "");
    const sizeMib = parseSizeMib(request.sizeBytes);
    const metadata = parseMetadata(request.metadata);
    const asked = {
      ...parseOnHostSilence(request.onHostSilence),
      ...parseExportKind(request.exportKind, deployment === ""),
    };
    return {
      job: { type: "create_dynamic_disk", diskName, ...place, pool, sizeMib, metadata, ...asked },
      description: `create dynamic disk \`${diskName}\``,
      deployment: (tables) => (coversDeployment(scope, tables, deployment) ? deployment : ""),
    };
  }),
  attachDynamicDisk: answeringDisk((request, scope) => {
    const diskName = parseDiskName(request.diskName);
    const place = parsePlace(request);
    const metadata = parseMetadata(request.metadata);
    return {
      job: { type: "attach_dynamic_disk", diskName, ...place, metadata, ...readOnlyOf(request) },
      description: `attach dynamic disk \`${diskName}\` to ${formatPlace(place)}`,
      deployment: deploymentOfInstance(place.instanceId, scope),
    };
  }),
  resizeDynamicDisk: answeringDisk((request, scope) => {
    const diskName = parseDiskName(request.diskName);
    const sizeMib = parseSizeMib(request.sizeBytes);
    return {
      job: { type: "resize_dynamic_disk", diskName, sizeMib },
      description: `resize dynamic disk \`${diskName}\` to ${bytesText(sizeMib * MIB_BYTES)}`,
      deployment: deploymentOfDisk(diskName, scope),
    };
  }),
  setDynamicDiskLimits: answeringDisk((request, scope) => {
    const diskName = parseDiskName(request.diskName);
    const limits = parseIoLimits(request.limits) ?? null;
    return {
      job: { type: "set_dynamic_disk_limits", diskName, limits },
      description: `${limits === null ? "lift the limits of" : "limit"} dynamic disk \`${diskName}\``,
      deployment: deploymentOfDisk(diskName, scope),
    };
  }),
  detachDynamicDisk: answeringDisk((request, scope) => {
    const diskName = parseDiskName(request.diskName);
    return {
      job: { type: "detach_dynamic_disk", diskName, meant: parseMeantAttachment(request) },
      description: `detach dynamic disk \`${diskName}\``,
      deployment: deploymentOfDisk(diskName, scope),
    };
  }),
  deleteDynamicDisk: diskTask((request, scope) => {
    const diskName = parseDiskName(request.diskName);
    return {
      job: { type: "delete_dynamic_disk", diskName, meant: parseMeantAttachment(request) },
      description: `delete dynamic disk \`${diskName}\``,
      deployment: deploymentOfDisk(diskName, scope),
    };
  }),
  undeleteDynamicDisk: answeringDisk((request, scope) => {
    const diskName = parseDiskName(request.diskName);
    const diskCid = request.diskCid === "" ? "" : parseCid("disk", request.diskCid);
    return {
      job: { type: "undelete_dynamic_disk", diskName, diskCid },
      description: `take back dynamic disk \`${diskName}\``,
      deployment: deploymentOfDisk(diskName, scope),
    };
  }),
};

function formatPlace({ instanceId, hostId }: WantedPlace): string {
  return hostId === undefined ? `instance \`${instanceId}\`` : `host \`${hostId}\``;
}

function readOnlyOf({ readOnly }: { readonly readOnly: boolean }) {
  return readOnly ? { readOnly } : {};
}

interface DiskRequest {
  diskName: string;
  wait: boolean;
}
type DiskRow<Request> = (request: Request, scope: Scope | undefined) => Omit<WantedTask, "queue">;

/** Returns a method whose task keeps to the caller's scope. */
function diskTask<Request extends DiskRequest>(row: DiskRow<Request>): TaskMethod<Request> {
  return taskMethod("dynamic_disks", (request, context, call) => {
    const scope = scopeOf(call);
    const wanted = row(request, scope);
    refuseUnlessEnabled(context);
    return scope === undefined ? wanted : { ...wanted, job: { ...wanted.job, scope } };
  });
}

function deploymentOfInstance(instanceId: string, scope: Scope | undefined): (tables: DirectorTables) => string {
  return (tables) => instanceIn(scope, tables, instanceId)?.deployment ?? "";
}

function deploymentOfDisk(diskName: string, scope: Scope | undefined): (tables: DirectorTables) => string {
  return (tables) => diskIn(scope, tables, diskName)?.deployment ?? "";
}

/** Returns a method that also answers the disk, as recorded when the task has started or ended. */
function answeringDisk<Request extends DiskRequest>(
  row: DiskRow<Request>,
): TaskMethod<Request, TaskContext, { task: Task; disk: DynamicDisk | undefined }> {
  const start = diskTask(row);
  return async (context, request, call) => {
    const { task } = await start(context, request, call);
    const reading = context.tablet.read((tables) => diskIn(scopeOf(call), tables, request.diskName));
    const disk = await ofStarted(task.taskId, reading);
    return { task, disk: disk && encodeDisk(disk, context.tablet.incarnation) };
  };
}

interface GetDiskContext extends TaskContext {
  readonly registries: { troubleOfDisk(diskCid: string, call: CallContext): Promise<Trouble | undefined> };
}

export async function getDynamicDisk(
  context: GetDiskContext,
  request: GetDynamicDiskRequest,
  call: CallContext,
): Promise<GetDynamicDiskResponse> {
  const diskName = parseDiskName(request.diskName);
  refuseUnlessEnabled(context);
  const disk = await context.tablet.read((tables) => diskIn(scopeOf(call), tables, diskName));
  if (disk === undefined) throw diskNotFound(diskName);
  const encoded = encodeDisk(disk, context.tablet.incarnation);
  const isAsked = request.withTrouble && encoded.diskCid !== "";
  const trouble = isAsked ? await context.registries.troubleOfDisk(encoded.diskCid, call) : undefined;
  return { disk: encoded, trouble };
}

export async function listDynamicDisks(
  context: TaskContext,
  request: ListDynamicDisksRequest,
  call: Pick<CallContext, "identity" | "teams">,
): Promise<ListDynamicDisksResponse> {
  const deployment = parseOptionalName("deployment", request.deployment);
  const instanceId = request.instanceId === "" ? undefined : parseInstanceId(request.instanceId);
  const hostId = request.hostId === "" ? undefined : parseHostId(request.hostId);
  refuseUnlessEnabled(context);
  const scope = scopeOf(call);
  const { items, nextPageToken } = await pageOf(context.tablet, request, {
    what: "disks",
    rows: (tables, from) => {
      const rows = rowsOf(tables, { deployment, instanceId, hostId }, from);
      return rowsIn(scope, rows, (disk) => coversDisk(scope, tables, disk));
    },
    keyOf: (disk) => disk.name,
    describe: (_, disk) => encodeDisk(disk, context.tablet.incarnation),
  });
  return { disks: [...items], nextPageToken };
}

function rowsOf(
  { disks }: DirectorTables,
  wanted: Readonly<Record<"deployment" | "instanceId" | "hostId", string | undefined>>,
  from: { readonly after?: string | undefined },
): Iterable<Disk> {
  const { deployment, instanceId, hostId } = wanted;
  if (hostId !== undefined) return disks.by("byHost", hostId, from);
  if (instanceId !== undefined) return disks.by("byInstance", instanceId, from);
  return deployment === undefined ? disks.entries(from) : disks.by("byDeployment", deployment, from);
}

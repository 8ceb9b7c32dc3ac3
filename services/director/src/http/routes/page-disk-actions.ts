import {
  bytesText,
  countText,
  InvalidStateError,
  type IoLimits,
  NotFoundError,
  parseIoLimitsJson,
  parseSizeText,
} from "@diskmesh/domain";
import type { ActionAnswer } from "@diskmesh/page/rows";
import type { Operation } from "../../config/policy.js";
import { dynamicDiskTasks } from "../../disks/dynamic/handlers.js";
import { recordedDisk } from "../../explain/known.js";
import { growthWarnings, roomWarnings } from "../../page/room-warnings.js";
import { instanceName } from "../../page/vms.js";
import { type Disk, sizeBytesOf } from "../../store/disk.js";
import { parseDiskName, parseSizeMib } from "../../tasks/parse.js";
import type { Fields } from "../body.js";
import { BadRequestError } from "../http-error.js";
import type { HttpCall } from "../route.js";

/** A request of the page about a disk, or about a host or an instance that is to get one. */
interface Wanted {
  /** A disk's CID, or the id of a host or an instance. */
  readonly name: string;
  readonly isDry: boolean;
  readonly fields: Fields;
}

interface DiskAction {
  readonly path: string;
  readonly operation: Operation;
  readonly act: (http: HttpCall, wanted: Wanted) => Promise<ActionAnswer>;
}

/** Plan of an action: a line for the user, the operator's command that does the same, and the start of its task. */
interface Deed {
  readonly line: string;
  readonly command: string;
  /** Returns what a dry run warns of. */
  readonly warnings?: () => Promise<readonly string[]>;
  readonly start: () => Promise<{ readonly task?: { readonly taskId: number } | undefined }>;
}

type DeedOnDisk = (http: HttpCall, disk: Disk, fields: Fields) => Deed | Promise<Deed>;

/** The page's actions on dynamic disks. Each starts a task, which keeps to the rules of the command's. */
export const diskActions: readonly DiskAction[] = [
  {
    path: "hosts/:name/provide",
    operation: "provideDynamicDisk",
    act: async (http, wanted) => answered(await provide(http, wanted, "host"), wanted.isDry),
  },
  {
    path: "instances/:name/provide",
    operation: "provideDynamicDisk",
    act: async (http, wanted) => answered(await provide(http, wanted, "instance"), wanted.isDry),
  },
  onDisk("attach", "attachDynamicDisk", attach),
  onDisk("detach", "detachDynamicDisk", detach),
  onDisk("resize", "resizeDynamicDisk", resize),
  onDisk("limits", "setDynamicDiskLimits", limit),
  onDisk("delete", "deleteDynamicDisk", remove),
  {
    path: "disks/:name/undelete",
    operation: "undeleteDynamicDisk",
    act: async (http, { name, isDry }) => answered(await undelete(http, name), isDry),
  },
];

function onDisk(word: string, operation: Operation, deed: DeedOnDisk): DiskAction {
  const act: DiskAction["act"] = async (http, { name, isDry, fields }) =>
    answered(await deed(http, await dynamicDisk(http, name), fields), isDry);
  return { path: `disks/:name/${word}`, operation, act };
}

async function answered({ line, command, warnings, start }: Deed, isDry: boolean): Promise<ActionAnswer> {
  const shown = `diskmesh ${command}`;
  if (isDry) return { lines: [line, ...((await warnings?.()) ?? [])], command: shown };
  const { task } = await start();
  return { lines: [line], command: shown, ...(task && { taskId: task.taskId }) };
}

async function dynamicDisk({ context }: HttpCall, cid: string): Promise<Disk> {
  const [disk] = await context.tablet.read((tables) => [...tables.disks.by("byCid", cid)]);
  if (disk !== undefined) return disk;
  throw new NotFoundError(
    `this director has no dynamic disk ${cid} (any more): it was deleted, or it is of a deployment's manifest, where it is changed`,
  );
}

/** Returns the plan of a new or existing disk for a host, or for an instance by its id. */
async function provide(
  { context, call }: HttpCall,
  { name, fields }: Wanted,
  kind: "host" | "instance",
): Promise<Deed> {
  const diskName = parseDiskName(fields.text("disk_name"));
  const pool = fields.optionalText("pool") ?? "";
  const sizeBytes = parseSizeText(fields.text("size"), "size");
  parseSizeMib(sizeBytes);
  const isHost = kind === "host";
  const given = isHost ? { pool, diskPoolName: "" } : { pool: "", diskPoolName: pool || "default" };
  const { text, argument, place } = isHost ? placeOfHost(name) : await placeOfInstance(context, name);
  const warnings = async () => {
    const exists = await context.tablet.read((tables) => recordedDisk(tables, diskName) !== undefined);
    return exists
      ? []
      : roomWarnings(context, await azOf(context, place, call), isHost ? pool || "default" : "", sizeBytes, call);
  };
  const request = { diskName, ...place, ...given, readOnly: false, metadata: undefined, sizeBytes, wait: false };
  return {
    line: `${text} gets disk ${diskName} of ${bytesText(sizeBytes)} ${isHost ? "in pool" : "of disk type"} ${pool || "default"}, which is made if it is not there`,
    command: `provide ${diskName} ${argument} --size ${fields.text("size")}${pool && ` --${isHost ? "pool" : "disk-type"} ${pool}`}`,
    warnings,
    start: () => dynamicDiskTasks.provideDynamicDisk(context, request, call),
  };
}

interface Place {
  /** The place for people, and as the command's argument. */
  readonly text: string;
  readonly argument: string;
  readonly place: { readonly instanceId: string; readonly hostId: string };
}

function placeOfHost(hostId: string): Place {
  return { text: `host ${hostId}`, argument: `--host ${hostId}`, place: { instanceId: "", hostId } };
}

async function placeOfInstance({ tablet }: HttpCall["context"], instanceId: string): Promise<Place> {
  const instance = await tablet.read(({ instances }) => instances.get(instanceId));
  const name = instance === undefined ? instanceId : instanceName(instance);
  return { text: `instance ${name}`, argument: name, place: { instanceId, hostId: "" } };
}

async function azOf(
  { tablet, registries }: HttpCall["context"],
  { instanceId, hostId }: Place["place"],
  call: HttpCall["call"],
): Promise<string> {
  if (hostId === "") return (await tablet.read(({ instances }) => instances.get(instanceId)))?.az ?? "";
  return (await registries.hostById(hostId, call))?.az ?? "";
}

async function attach({ context, call }: HttpCall, disk: Disk, fields: Fields): Promise<Deed> {
  const { name: diskName, deployment } = disk;
  const to = fields.text("to");
  requireDetached(disk, "attached elsewhere");
  const { text, argument, place } = deployment === "" ? placeOfHost(to) : await placeOfInstance(context, to);
  const request = { diskName, ...place, readOnly: false, metadata: undefined, wait: false };
  return {
    line: `disk ${diskName} is attached to ${text}`,
    command: `attach ${diskName} ${argument}`,
    start: () => dynamicDiskTasks.attachDynamicDisk(context, request, call),
  };
}

function detach({ context, call }: HttpCall, { name: diskName, ...disk }: Disk): Deed {
  if (disk.vmCid === "") throw new InvalidStateError(`disk ${diskName} is attached to nothing: nothing is to be done`);
  const { instanceId, hostId = "", attachmentId } = disk;
  return {
    line: `disk ${diskName} is taken from ${hostId === "" ? `instance ${instanceId}` : `host ${hostId}`}, whose programs must not use it any more; its data are kept`,
    command: `detach ${diskName}`,
    start: () =>
      dynamicDiskTasks.detachDynamicDisk(context, { diskName, instanceId, hostId, attachmentId, wait: false }, call),
  };
}

function resize({ context, call }: HttpCall, disk: Disk, fields: Fields): Deed {
  const { name: diskName } = disk;
  const sizeBytes = parseSizeText(fields.text("size"), "size");
  if (sizeBytes <= sizeBytesOf(disk))
    throw new BadRequestError(
      `disk ${diskName} has ${bytesText(sizeBytesOf(disk))} and only grows: give a larger size than that`,
      undefined,
      "size",
    );
  return {
    line: `disk ${diskName} grows from ${bytesText(sizeBytesOf(disk))} to ${bytesText(sizeBytes)}; it cannot shrink again`,
    command: `resize ${diskName} ${fields.text("size")}`,
    warnings: () => growthWarnings(context, disk.diskCid, sizeBytes - sizeBytesOf(disk), call),
    start: () => dynamicDiskTasks.resizeDynamicDisk(context, { diskName, sizeBytes, wait: false }, call),
  };
}

/** The limits that the page asks for: field, option of the command, and what it counts. */
const LIMITS = [
  ["read_iops", "--read-iops", "reads"],
  ["write_iops", "--write-iops", "writes"],
  ["read_bytes_per_second", "--read-rate", "read"],
  ["write_bytes_per_second", "--write-rate", "written"],
] as const;

function limit({ context, call }: HttpCall, { name: diskName }: Disk, fields: Fields): Deed {
  const given = LIMITS.flatMap(([field, option, what]) => {
    const text = fields.optionalText(field);
    if (text === undefined) return [];
    const isRate = field.endsWith("bytes_per_second");
    if (!isRate && !/^[1-9]\d{0,11}$/.test(text))
      throw new BadRequestError(`${field} must be a whole number above 0, or empty for no limit`, undefined, field);
    const value = isRate ? parseSizeText(text, field) : Number(text);
    const line = isRate ? `${bytesText(value)} ${what}` : countText(value, what.slice(0, -1), what);
    return [{ field, value, option: ` ${option} ${text}`, line }];
  });
  const limits: IoLimits | undefined = parseIoLimitsJson(
    Object.fromEntries(given.map(({ field, value }) => [field, value])),
  );
  const rates = given.map(({ line }) => line).join(", ");
  return {
    line: `${rates === "" ? `disk ${diskName} has no limit any more` : `of disk ${diskName}, at most ${rates} per second`}`,
    command: `limits ${diskName}${given.map(({ option }) => option).join("") || " --none"}`,
    start: () => dynamicDiskTasks.setDynamicDiskLimits(context, { diskName, limits, wait: false }, call),
  };
}

function remove({ context, call }: HttpCall, disk: Disk): Deed {
  const { name: diskName } = disk;
  requireDetached(disk, "deleted");
  const meant = { instanceId: "", hostId: "", attachmentId: disk.attachmentId };
  return {
    line: `disk ${diskName} and its ${bytesText(sizeBytesOf(disk))} of data are deleted`,
    command: `delete ${diskName}`,
    start: () => dynamicDiskTasks.deleteDynamicDisk(context, { diskName, ...meant, wait: false }, call),
  };
}

async function undelete({ context, call }: HttpCall, diskCid: string): Promise<Deed> {
  const deleted = await context.tablet.read(({ deletedDisks }) => deletedDisks.get(diskCid));
  if (deleted === undefined)
    throw new NotFoundError(
      `this director has deleted no dynamic disk ${diskCid}: \`diskmesh undelete ${diskCid}\` brings it back at its registry`,
    );
  const { name: diskName } = deleted.disk;
  return {
    line: `disk ${diskName} comes back with its ${bytesText(sizeBytesOf(deleted.disk))} of data, attached to nothing`,
    command: `undelete ${diskCid}`,
    start: () => dynamicDiskTasks.undeleteDynamicDisk(context, { diskName, diskCid, wait: false }, call),
  };
}

function requireDetached({ name, vmCid, instanceId, hostId }: Disk, what: string): void {
  if (vmCid === "") return;
  const where = hostId === undefined ? `instance ${instanceId}` : `host ${hostId}`;
  throw new InvalidStateError(`disk ${name} is attached to ${where}: detach it before it is ${what}`);
}

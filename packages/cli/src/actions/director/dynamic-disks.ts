import type { DynamicDisk } from "@diskmesh/api/director";
import { NotFoundError } from "@diskmesh/domain";
import { cidOfDisk } from "../../mesh/disk-names.js";
import type { Mesh } from "../../mesh/mesh.js";
import { UsageError } from "../../output/exit-codes.js";
import { sizeBytesOf } from "../../output/values.js";
import { type Action, type ActionCall, type Options, textOption } from "../action.js";
import { findDeleted, requireDeleted } from "../fleet/deleted-disks.js";
import { getInstance } from "../instances.js";
import { followToDone, taskAction } from "../task-run.js";

const HOST = ["--host <host-id>", "host that gets the disk, by its ID or as CPI/ID, instead of an instance"] as const;

export const provide = taskAction({
  usage: "provide <disk-name> [instance]",
  summary:
    "give a host, or an instance by its id or as DEPLOYMENT/GROUP/INDEX, a dynamic disk: created and attached if needed",
  options: [
    HOST,
    ["--size <size>", "size of the disk, such as 10GiB; needed"],
    ["--pool <name>", "pool of a new disk of hosts (default)"],
    ["--disk-type <name>", "disk type of a new disk of instances, from the cloud config (default)"],
  ],
  example: "diskmesh provide scratch --host host-3 --size 32MiB",
  start: async ({ mesh, options, args: [diskName = "", instance = ""] }) => {
    const place = await placeOf(mesh, options, instance);
    const size = textOption(options, "size");
    if (size === "") throw new UsageError("--size is missing: give a number with a unit, for example --size 10GiB");
    const sizeBytes = sizeBytesOf(size);
    const pool = textOption(options, "pool");
    const diskPoolName = place.hostId === "" ? textOption(options, "diskType") || "default" : "";
    return mesh.disks.provideDynamicDisk({ diskName, ...place, pool, diskPoolName, sizeBytes, wait: false });
  },
  next: ({ args: [diskName = ""], options }) => (textOption(options, "host") === "" ? "" : afterAttach(diskName)),
});

export const attach = taskAction({
  usage: "attach <disk-name> [instance]",
  summary: "attach a dynamic disk to a host, or to an instance by its id or as DEPLOYMENT/GROUP/INDEX",
  options: [HOST, ["--move", "detach the disk first where it is attached elsewhere"]],
  example: "diskmesh attach scratch --host host-1 --move",
  start: async (call) => {
    const { mesh, options, args } = call;
    const [diskName = "", instance = ""] = args;
    const place = await placeOf(mesh, options, instance);
    if (options.move) await detachElsewhere(call, diskName, place);
    return mesh.disks.attachDynamicDisk({ diskName, ...place, wait: false });
  },
  next: ({ args: [diskName = ""], options }) => (textOption(options, "host") === "" ? "" : afterAttach(diskName)),
});

export const resize = taskAction({
  usage: "resize <disk-name> <size>",
  summary: "enlarge a dynamic disk; one that its host serves as a block device has to be detached meanwhile",
  example: "diskmesh resize scratch 20GiB",
  start: async ({ mesh, args: [diskName = "", size = ""] }) =>
    mesh.disks.resizeDynamicDisk({ diskName, sizeBytes: sizeBytesOf(size), wait: false }),
  next: ({ args: [diskName = ""] }, disk) => (isDetached(disk) ? afterDetach(diskName) : ""),
  afterFailure: ({ args: [diskName = "", size = ""] }, disk) =>
    disk === undefined || disk.vmCid === ""
      ? ""
      : `if the disk cannot be enlarged while it is served: diskmesh detach ${diskName}, then diskmesh resize ${diskName} ${size}, then attach it again`,
});

export const detach = taskAction({
  usage: "detach <disk-name>",
  summary: "detach a dynamic disk from its host or instance; the disk is kept",
  options: [["--attachment <id>", "only if this is its present attachment"]],
  example: "diskmesh detach scratch",
  start: ({ mesh, options, args: [diskName = ""] }) =>
    mesh.disks.detachDynamicDisk({ diskName, attachmentId: textOption(options, "attachment"), wait: false }),
  next: ({ args: [diskName = ""] }, disk) => (isOfHosts(disk) ? afterDetach(diskName) : ""),
});

const deletion = taskAction({
  usage: "delete <disk-name>",
  summary: "delete a detached dynamic disk; its data is kept for the deleteGraceMs of its pool, if that has one",
  options: [
    ["--attachment <id>", "only if this is its last attachment"],
    ["--now", "erase its data at once; also that of a deleted disk, by its name or id"],
  ],
  example: "diskmesh delete scratch",
  start: startDelete,
});

export const deleteDisk: Action = {
  ...deletion,
  run: (call) => (call.options.now ? deleteNow(call) : deletion.run(call)),
};

function startDelete({ mesh, options, args: [diskName = ""] }: ActionCall) {
  return mesh.disks.deleteDynamicDisk({ diskName, attachmentId: textOption(options, "attachment"), wait: false });
}

/** Deletes the disk at its director, if that knows it, and ends the time for which the registry keeps it. */
async function deleteNow(call: ActionCall): Promise<void> {
  const { mesh, output, options, args } = call;
  const [diskName = ""] = args;
  if (options.wait === false) throw new UsageError("--now waits for the task: leave out --no-wait");
  const diskCid = await cidOfDisk(mesh, diskName);
  const isKnown = diskCid !== diskName;
  if (isKnown) await followToDone(call, (await startDelete(call)).task);
  // Only a disk that counts as deleted is erased: the director may have left one of another attachment alone.
  const kept = isKnown ? await findDeleted(mesh, diskCid) : await requireDeleted(mesh, diskName);
  if (kept === undefined) return output.say(`disk ${diskCid} is not kept`);
  const { diskId } = kept;
  output.answer(await mesh.registry.deleteDisk({ diskId, skipGrace: true }), `disk ${diskId} is erased`);
}

/** Returns the place that the user names. An option that the place does not have is refused instead of ignored. */
async function placeOf(mesh: Mesh, options: Options, instance: string) {
  const hostId = textOption(options, "host");
  if ((hostId === "") === (instance === "")) throw new UsageError("give either an instance or --host");
  if (hostId !== "" && options.diskType !== undefined)
    throw new UsageError("--disk-type is of instances: give a disk of hosts a --pool");
  if (hostId === "" && options.pool !== undefined)
    throw new UsageError("--pool is of hosts: give a disk of instances a --disk-type");
  const isPath = instance.includes("/");
  return { hostId, instanceId: isPath ? (await getInstance(mesh, instance)).instanceId : instance };
}

/** Ends the disk's present attachment unless it is at the place. A later attachment, made meanwhile, is left alone. */
async function detachElsewhere(
  call: ActionCall,
  diskName: string,
  { hostId, instanceId }: { readonly hostId: string; readonly instanceId: string },
): Promise<void> {
  const { disks } = call.mesh;
  const { disk } = await disks.getDynamicDisk({ diskName });
  if (disk === undefined) throw new NotFoundError(`there is no disk ${diskName}`);
  const isThere = disk.instanceId === instanceId && disk.hostId === hostId.slice(hostId.indexOf("/") + 1);
  if (disk.vmCid === "" || isThere) return;
  const { attachmentId } = disk;
  await followToDone(call, (await disks.detachDynamicDisk({ diskName, attachmentId, wait: false })).task);
}

const isOfHosts = (disk: DynamicDisk | undefined): boolean => disk?.deployment === "";
const isDetached = (disk: DynamicDisk | undefined): boolean => isOfHosts(disk) && disk?.vmCid === "";

const afterAttach = (name: string): string =>
  `next: diskmesh attach ${name} --host HOST --move, or diskmesh detach ${name}`;
const afterDetach = (name: string): string =>
  `next: diskmesh attach ${name} --host HOST, diskmesh resize ${name} SIZE, or diskmesh delete ${name}`;

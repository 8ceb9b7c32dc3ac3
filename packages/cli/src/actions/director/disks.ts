import type { DynamicDisk } from "@diskmesh/api/director";
import { type Disk, devicesWithBytes } from "@diskmesh/api/registry";
import { countText, ioLimitsText } from "@diskmesh/domain";
import { msOfDuration } from "@diskmesh/rpc";
import { dynamicDisks, namesOfDisks } from "../../mesh/disk-names.js";
import { UsageError } from "../../output/exit-codes.js";
import { moveProgress } from "../../output/move-output.js";
import { type Columns, short, sizeText, timeText, troubleText } from "../../output/output.js";
import { type Action, textOption } from "../action.js";
import { isDeleted, listedDisks, nameOfDisk } from "../fleet/deleted-disks.js";

const ofRegistry = (names: ReadonlyMap<string, string>): Columns<Disk> => ({
  disk: ({ diskId }) => diskId,
  name: ({ diskId }) => names.get(diskId) ?? "",
  size: ({ sizeBytes }) => sizeText(sizeBytes),
  az: ({ az }) => az,
  pool: ({ pool }) => pool,
  health: ({ health }) => short(health),
  devices: (disk) => devicesWithBytes(disk).join(" "),
  published: ({ publication }) => (publication === undefined ? "" : short(publication.state)),
  to: ({ publication }) => publication?.hostId ?? "",
  path: ({ publication }) => publication?.exportPath ?? "",
  limits: limitsOfDisk,
  trouble: ({ trouble }) => troubleText(trouble),
});

const DELETED: Columns<Disk> = {
  disk: ({ diskId }) => diskId,
  name: nameOfDisk,
  size: ({ sizeBytes }) => sizeText(sizeBytes),
  az: ({ az }) => az,
  pool: ({ pool }) => pool,
  health: ({ health }) => short(health),
  devices: (disk) => devicesWithBytes(disk).join(" "),
  deleted: ({ deleteTime }) => timeText(deleteTime),
  "kept until": ({ purgeTime }) => timeText(purgeTime),
};

const WIDE: Columns<Disk> = {
  moves: moveProgress,
  created: ({ createTime }) => timeText(createTime),
  "block size": ({ blockSizeBytes }) => blockSizeBytes,
  session: ({ publication }) => publication?.sessionNumber ?? "",
  "i/o": ioText,
};

function limitsOfDisk({ limits, publication, io }: Disk): string {
  const throttled = io?.throttledRequests ?? 0;
  return [
    ioLimitsText(limits),
    publication?.changePending && limits !== undefined ? "not in force yet" : "",
    throttled === 0 ? "" : `${countText(throttled, "request waits", "requests wait")} for them`,
  ]
    .filter(Boolean)
    .join("; ");
}

function ioText({ io }: Disk): string {
  if (io === undefined) return "";
  const { reads, readBytes, writes, writtenBytes, errors, uncounted, openRequests, oldestRequestAge } = io;
  const sums = `${reads} reads ${sizeText(readBytes)}, ${writes} writes ${sizeText(writtenBytes)}`;
  const oldestSeconds = Math.floor(msOfDuration(oldestRequestAge) / 1_000);
  return [
    uncounted ? "not counted" : sums,
    errors === 0 ? "" : `${errors} errors`,
    openRequests === 0 ? "" : `${openRequests} not answered, the oldest for ${oldestSeconds} s`,
  ]
    .filter(Boolean)
    .join(", ");
}

const OF_DIRECTOR: Columns<DynamicDisk> = {
  name: ({ diskName }) => diskName,
  disk: ({ diskCid }) => diskCid,
  size: ({ sizeBytes }) => sizeText(sizeBytes),
  deployment: ({ deployment }) => deployment,
  instance: ({ instanceId }) => instanceId,
  host: ({ hostId }) => hostId,
  vm: ({ vmCid, hostId }) => (hostId === "" ? vmCid : ""),
  path: ({ path }) => path,
  limits: ({ limits }) => ioLimitsText(limits),
  az: ({ az }) => az,
  "disk type": ({ diskPoolName }) => diskPoolName,
  pool: ({ pool }) => pool,
  cpi: ({ cpi }) => cpi,
};

export const disks: Action = {
  usage: "disks",
  summary: "list the disks of the fleet, or the director's dynamic disks",
  options: [
    ["--host <host-id>", "only disks with a device on this host or published to it; not with --dynamic"],
    ["--device <device-id>", "only disks with data on this device; not with --dynamic"],
    ["--deleted", "list deleted disks that are still kept; not with --dynamic"],
    ["--dynamic", "list the director's dynamic disks instead"],
    ["--deployment <name>", "only dynamic disks of this deployment; needs --dynamic"],
  ],
  example: "diskmesh disks --host host-1",
  run: async ({ mesh, output, options }) => {
    const [hostId, deviceId] = [textOption(options, "host"), textOption(options, "device")];
    const deployment = textOption(options, "deployment");
    // Incompatible filters are refused instead of ignored, because the list may be the input of deletions.
    if (options.dynamic && (options.deleted || hostId + deviceId !== ""))
      throw new UsageError("--host, --device and --deleted select disks of the fleet: leave out --dynamic");
    if (!options.dynamic && deployment !== "")
      throw new UsageError("--deployment selects dynamic disks: add --dynamic");
    if (options.dynamic) {
      output.list(OF_DIRECTOR, await dynamicDisks(mesh, deployment), "no such disks");
      return;
    }
    const showDeleted = options.deleted === true;
    const naming = output.isData ? new Map() : namesOfDisks(mesh);
    // The registry's filters combine, and a disk may be served on the host, or have data there.
    const filters =
      hostId === ""
        ? [{ deviceId }]
        : [
            { hostId, deviceId },
            { deviceHostId: hostId, deviceId },
          ];
    const found = new Map<string, Disk>();
    for (const filter of filters)
      for (const disk of await listedDisks(mesh, { ...filter, showDeleted }))
        if (!found.has(disk.diskId)) found.set(disk.diskId, disk);
    const names = await naming;
    if (showDeleted) output.list(DELETED, [...found.values()].filter(isDeleted), "no deleted disks are kept", WIDE);
    else output.list(ofRegistry(names), [...found.values()], "no such disks", WIDE);
  },
};

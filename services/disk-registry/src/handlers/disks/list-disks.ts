import type { ListDisksRequest, ListDisksResponse } from "@diskmesh/api/registry";
import { parseDeviceId, parseHostId } from "@diskmesh/domain";
import { pageOf } from "@diskmesh/rpc";
import type { Context } from "../../calls/context.js";
import { describeDisk } from "../../calls/device-description.js";
import { isListed } from "../../model/disks/deleted-disks.js";
import { disksOn } from "../../model/store/runs.js";
import type { Disk, RegistryTables } from "../../model/store/schema.js";

type From = { readonly after?: string | undefined };

export async function listDisks(context: Context, request: ListDisksRequest): Promise<ListDisksResponse> {
  const hostId = request.hostId === "" ? undefined : parseHostId(request.hostId);
  const withDataOn = devicesIn(request);
  const { items, nextPageToken } = await pageOf(context.tablet, request, {
    what: "disks",
    rows: (tables, from) => {
      if (withDataOn !== undefined) return disksAfter(tables, disksOn(withDataOn(tables)), from);
      return hostId === undefined ? tables.disks.entries(from) : tables.disks.by("byPublicationHost", hostId, from);
    },
    keyOf: (disk) => disk.diskId,
    matches: (disk) =>
      isListed(disk, request.showDeleted) && (hostId === undefined || disk.publication?.hostId === hostId),
    describe: (tables, disk) => describeDisk(context, tables, disk),
  });
  return { disks: [...items], nextPageToken };
}

/** Returns a reader of the devices that the filters name; undefined without filter. */
function devicesIn({ deviceHostId, deviceId }: ListDisksRequest) {
  if (deviceHostId === "" && deviceId === "") return undefined;
  const onHost = deviceHostId === "" ? undefined : parseHostId(deviceHostId, "device_host_id");
  if (deviceId === "") return (tables: RegistryTables) => [...tables.devices.by("usedByHost", onHost ?? "")];
  const named = parseDeviceId(deviceId);
  return (tables: RegistryTables) => {
    const device = tables.devices.get(named);
    return device === undefined || (onHost !== undefined && device.hostId !== onHost) ? [] : [device];
  };
}

function* disksAfter({ disks }: RegistryTables, diskIds: readonly string[], { after = "" }: From): Generator<Disk> {
  for (const diskId of diskIds) {
    const disk = diskId > after ? disks.get(diskId) : undefined;
    if (disk !== undefined) yield disk;
  }
}

import type { Device as DeviceMessage, Disk as DiskMessage, Host as HostMessage } from "@diskmesh/api/registry";
import type { FindSharers } from "../model/devices/same-bytes.js";
import type { Cause } from "../model/explain/cause.js";
import { troubleOf } from "../model/explain/explain.js";
import { removalTimesOutAtMs } from "../model/hosts/removal-timeout.js";
import type { Device, Disk, Host, RegistryTables } from "../model/store/schema.js";
import { deviceMessage, diskMessage, hostMessage } from "../requests/wire.js";
import type { Context } from "./context.js";

type Describing = Pick<Context, "fleet" | "workers" | "config" | "clock" | "liveness" | "known">;

/** Describes a device, including its retry times and progress, which are kept in memory only. */
export function describeDevice(
  context: Describing,
  tables: RegistryTables,
  device: Device,
  findSharers?: FindSharers,
): DeviceMessage {
  const { fleet, workers } = context;
  const known = findSharers === undefined ? context.known : { ...context.known, findSharers };
  const host = tables.hosts.get(device.hostId);
  const removalTimesOut = device.attachState === "CLOSING" && host !== undefined;
  return deviceMessage(device, fleet.leader(), {
    ...workers.progressOf(device),
    removalTimesOutAtMs: removalTimesOut ? timesOutAtMs(context, host) : undefined,
    trouble: troubleOf(tables, { kind: "DEVICE", name: device.deviceId }, known),
  });
}

/** Describes a host, including facts that are kept in memory only. */
export function describeHost(context: Describing, tables: RegistryTables, host: Host): HostMessage {
  return describeChangedHost(context, host, troubleOf(tables, { kind: "HOST", name: host.hostId }, context.known));
}

/** Describes a host for the answer to a change, which has no trouble. */
export function describeChangedHost(context: Describing, host: Host, trouble?: Cause): HostMessage {
  const { liveness } = context;
  return hostMessage(host, {
    lastHeardAtMs: liveness.lastHeardAtMs(host.hostId),
    removalTimesOutAtMs: timesOutAtMs(context, host),
    isSuspected: liveness.whySuspected(host.hostId) !== undefined,
    trouble,
  });
}

type DescribingDisks = Pick<Context, "known" | "ioMeter">;

/** Describes a disk, including facts that are kept in memory only. */
export function describeDisk(context: DescribingDisks, tables: RegistryTables, disk: Disk): DiskMessage {
  const trouble = troubleOf(tables, { kind: "DISK", name: disk.diskId }, context.known);
  return describeChangedDisk(context, tables, disk, trouble);
}

/** Describes a disk for the answer to a change, which has no trouble: to find it may take longer than the change. */
export function describeChangedDisk(
  { known, ioMeter }: DescribingDisks,
  tables: RegistryTables,
  disk: Disk,
  trouble?: Cause,
): DiskMessage {
  const io = disk.publication && ioMeter.diskIo(disk.diskId, disk.publication.hostId);
  return diskMessage(tables, disk, { trouble, progress: known.moveProgressOf(disk.diskId), io });
}

function timesOutAtMs(
  { clock, config, liveness }: Pick<Context, "liveness" | "config" | "clock">,
  host: Host,
): number | undefined {
  const time = { nowMs: clock.nowMs(), listenedMs: liveness.totalListenedMs };
  return removalTimesOutAtMs(host, config.unavailableRemovalTimeoutMs, time);
}

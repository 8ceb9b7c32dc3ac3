import type { HostId } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { DeviceTable } from "../devices/device-table.js";
import type { ExportDevice, ExportSpec } from "../model/memory.js";
import type { DiskPart } from "./disk-part.js";
import { LocalPart } from "./local-part.js";

/** Opens a device of this or another host for an export or a copy. */
export type OpenPart = (
  device: ExportDevice,
  disk: Pick<ExportSpec, "diskId" | "sessionNumber">,
  /** Returns the present address and key of the device; by default those of the export. */
  now?: () => ExportDevice,
) => DiskPart;

/** Returns a function that opens devices of this host itself, and others with `openRemotePart`. */
export function openPart(options: {
  readonly hostId: HostId;
  readonly devices: DeviceTable;
  readonly openRemotePart: OpenPart;
  readonly clock: Clock;
  /** Maximum wait in ms of I/O while a device of this host is unusable. */
  readonly ioTimeoutMs: number;
}): OpenPart {
  const { hostId, devices, openRemotePart, clock, ioTimeoutMs: timeoutMs } = options;
  return (device, disk, now) => {
    if (device.hostId !== hostId) return openRemotePart(device, disk, now);
    const { deviceId, offsetBytes = 0, sessionNumber = disk.sessionNumber } = device;
    return new LocalPart(devices.get(deviceId), { sessionNumber, offsetBytes }, { devices, clock, timeoutMs });
  };
}

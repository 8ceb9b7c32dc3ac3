import { type HostId, InvalidArgumentError, OutdatedError, UnavailableError } from "@diskmesh/domain";
import type { DeviceTable } from "../devices/device-table.js";
import type { ExportDevice, ExportSpec } from "../model/memory.js";
import type { Running } from "./running.js";

/** Throws when the devices of this host, or the running export of the disk, do not allow the order to serve it. */
export function checkOrder(spec: ExportSpec, hostId: HostId, devices: DeviceTable, running: Running | undefined): void {
  const checkSize = (device: ExportDevice, sizeBytes: number): void => {
    if (device.hostId !== hostId) return;
    const { id, attached, sizeBytes: deviceBytes } = devices.get(device.deviceId);
    const heldBytes = deviceBytes - (device.offsetBytes ?? 0);
    if (attached && sizeBytes > heldBytes)
      throw new InvalidArgumentError(
        `device ${id} holds ${heldBytes} bytes, but its extent in disk ${spec.diskId} has ${sizeBytes}`,
      );
  };
  for (const extent of spec.extents) {
    checkSize(extent, extent.sizeBytes);
    // A target is not asked for access, because its loss ends the mirror and not the disk.
    if (extent.target !== undefined) checkSize(extent.target, extent.sizeBytes);
    if (extent.hostId !== hostId) continue;
    const { deviceId, offsetBytes = 0, sessionNumber = spec.sessionNumber } = extent;
    const runBytes = devices.get(deviceId).checkAccess(sessionNumber, offsetBytes);
    if (extent.sizeBytes > runBytes)
      throw new UnavailableError(
        `session ${sessionNumber} of device ${deviceId} is granted for ${runBytes} bytes from byte ${offsetBytes}, but its extent in disk ${spec.diskId} has ${extent.sizeBytes}`,
        { about: { device_id: deviceId } },
      );
  }
  // Refused before the order is remembered, because the former revision is served on.
  const whyNot = running?.sessionNumber === spec.sessionNumber ? running.served.whyNotChange?.(spec) : undefined;
  if (whyNot !== undefined) throw new UnavailableError(whyNot, { about: { disk_id: spec.diskId } });
}

/** Returns the error of a mirror that has ended without a decision about its devices. */
export function interruptedMirror({ diskId, sessionNumber, revision = 0 }: ExportSpec): OutdatedError {
  return new OutdatedError(
    `the mirror of disk ${diskId} in session ${sessionNumber} and revision ${revision} was interrupted: order a later revision or a new session`,
    { about: { disk_id: diskId } },
  );
}

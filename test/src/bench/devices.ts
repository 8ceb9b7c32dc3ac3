import type { Device } from "@diskmesh/disk-registry/simulation";
import { parseDeviceId, parseHostId } from "@diskmesh/domain";

const DEVICES_PER_HOST = 16;

const hostOf = (index: number) => `rack-7-host-${`${Math.floor(index / DEVICES_PER_HOST)}`.padStart(5, "0")}`;
export const deviceIdOf = (index: number) => `${hostOf(index)}-device-${index % DEVICES_PER_HOST}`;

/** Returns a device as a registry stores it, with names as long as those of real drives. */
export function device(index: number): Device {
  const serialNumber = `S64GNE0R${`${index}`.padStart(6, "0")}`;
  return {
    deviceId: parseDeviceId(deviceIdOf(index)),
    hostId: parseHostId(hostOf(index)),
    path: `/dev/disk/by-id/nvme-MZQL21T9HCJR-00A07_${serialNumber}`,
    offsetBytes: 0,
    sizeBytes: 1_920_383_410_176,
    blockSizeBytes: 4_096,
    serialNumber,
    fileIdentity: `3f2b8c1e-7d1f-4b5e-9d2a-8a1c33e91b07 259:${index}`,
    pool: "default",
    health: "ONLINE",
    healthMessage: "",
    attachState: "ATTACHED",
    generation: index + 1,
    attempts: 0,
    lastError: "",
    dirty: false,
    removalRequested: false,
    detachConfirmed: false,
    diskId: "",
    eraseSessionNumber: 0,
    lastSessionNumber: index + 1,
    stateChangedAtMs: 1_763_800_000_000 + index,
  };
}

import type { DiskId, HostId } from "@diskmesh/domain";
import { copyAtSlice, sessionOf } from "../store/layout.js";
import type { Device, Disk, RegistryTables } from "../store/schema.js";
import { type ByteRange, orderedBytes } from "../store/slices.js";

/** Last session of a run, as this registry gave it. Size 0 stands for all bytes of the device. */
export interface RunSession extends ByteRange {
  readonly sessionNumber: number;
  /** Empty for an erase. */
  readonly diskId: DiskId | "";
  /** Host that may do I/O; empty for none. */
  readonly holderHostId: HostId | "";
}

/** Returns the sessions that an agent remembers for the device unless it or this registry has lost some, by offset. */
export function sessionsOn(tables: RegistryTables, device: Device): readonly RunSession[] {
  const sessions = device.runs.map((run): RunSession => {
    const { diskId, first, lastSessionNumber = 0, eraseSessionNumber = lastSessionNumber } = run;
    const range = orderedBytes(device, run);
    const disk = tables.disks.get(diskId);
    if (disk === undefined) return { ...range, sessionNumber: eraseSessionNumber, diskId: "", holderHostId: "" };
    const sessionNumber = sessionOf(disk, copyAtSlice(disk, device.deviceId, first));
    return { ...range, sessionNumber, diskId, holderHostId: holderOf(disk) };
  });
  return sessions.filter(({ sessionNumber }) => sessionNumber > 0);
}

function holderOf({ publication }: Disk): HostId | "" {
  return publication === undefined || publication.state === "UNPUBLISHING" ? "" : publication.hostId;
}

/** Sessions of a device that an agent remembers from now on. It refuses others up to the floor. */
export interface LostSessions {
  readonly floor: number;
  readonly sessions: readonly RunSession[];
}

/** Returns what an agent is told that remembers no session of the device; undefined when none was ever given. */
export function lostSessions(tables: RegistryTables, device: Device): LostSessions | undefined {
  const sessions = sessionsOn(tables, device);
  const ofDisks = device.runs.map(({ diskId }) => tables.disks.get(diskId)?.lastSessionNumber ?? 0);
  const ofRuns = sessions.map(({ sessionNumber }) => sessionNumber);
  const floor = Math.max(device.lastSessionNumber ?? 0, ...ofDisks, ...ofRuns);
  return floor === 0 ? undefined : { floor, sessions };
}

import type { DiskId } from "@diskmesh/domain";

/**
 * Bytes of a device that a disk has, or that must be erased before their next use. Bytes without a run are free. In
 * this version a device has at most one run, which covers all its bytes.
 */
export interface Run {
  /** Place on the device; 0 for its first byte. */
  readonly first: number;
  /** Disk with a part there; empty when the bytes are dirty: data of a former disk, or unknown data. */
  readonly diskId: DiskId | "";
  /** Session of the current erase; absent when none was issued. */
  readonly eraseSessionNumber?: number | undefined;
}

/** Fields in which devices of version 1, which 0.1.0 wrote, have what their run has now. */
interface FormerDevice {
  readonly diskId: DiskId | "";
  readonly dirty: boolean;
  readonly eraseSessionNumber: number;
}

/** A device, as far as its runs say. */
export interface Runs {
  /** Bytes that are not free, in order. */
  readonly runs: readonly Run[];
}

const FREE: Runs = { runs: [] };
const DIRTY: Runs = { runs: [{ first: 0, diskId: "" }] };

/** Returns the device of version 1 with its run. */
export function withRunOfVersion1(device: object): object {
  const { diskId, dirty, eraseSessionNumber, ...rest } = device as FormerDevice;
  if (diskId !== "") return { ...rest, runs: [{ first: 0, diskId }] };
  if (!dirty) return { ...rest, ...FREE };
  return { ...rest, runs: [{ first: 0, diskId, ...(eraseSessionNumber !== 0 && { eraseSessionNumber }) }] };
}

/** Returns the disks that have a part on one of the devices, in order. */
export function disksOn(devices: readonly Runs[]): readonly DiskId[] {
  return [...new Set(devices.flatMap(({ runs }) => runs.flatMap(({ diskId }) => diskId || [])))].sort();
}

/** Returns the disk on the device; empty for none. */
export function diskOn(device: Runs): DiskId | "" {
  return disksOn([device])[0] ?? "";
}

/** Returns whether the disk has a part on the device. */
export function holds(device: Runs | undefined, diskId: string): boolean {
  return device?.runs.some((run) => run.diskId === diskId) ?? false;
}

export function holdsAnyDisk({ runs }: Runs): boolean {
  return runs.some(({ diskId }) => diskId !== "");
}

/** Returns whether bytes of the device must be erased before their next use. */
export function isDirty({ runs }: Runs): boolean {
  return runs.some(({ diskId }) => diskId === "");
}

/** Returns whether bytes of the device can be given to a disk, as far as its runs say. */
export function hasFreeBytes({ runs }: Runs): boolean {
  return runs.length === 0;
}

/** Returns the session of the device's current erase; 0 when none was issued. */
export function eraseSessionOf({ runs }: Runs): number {
  return runs.find(({ diskId }) => diskId === "")?.eraseSessionNumber ?? 0;
}

/** Returns the device with the disk on its free bytes. */
export function withDisk<T extends Runs>(device: T, diskId: DiskId): T {
  return { ...device, runs: [{ first: 0, diskId }] };
}

/** Returns the device with all bytes dirty, and with no disk. */
export function allDirty<T extends Runs>(device: T): T {
  return { ...device, ...DIRTY };
}

/** Returns the device with the bytes of the disk dirty. */
export function withoutDisk<T extends Runs>(device: T, diskId: DiskId): T {
  return {
    ...device,
    runs: device.runs.map((run) => (run.diskId === diskId ? { first: run.first, diskId: "" } : run)),
  };
}

/** Returns the device with the session for the erase of its first dirty run; without a session for 0. */
export function withEraseSession<T extends Runs>(device: T, sessionNumber: number): T {
  const index = device.runs.findIndex(({ diskId }) => diskId === "");
  const change = ({ eraseSessionNumber: _, ...run }: Run): Run =>
    sessionNumber === 0 ? run : { ...run, eraseSessionNumber: sessionNumber };
  return { ...device, runs: device.runs.map((run, at) => (at === index ? change(run) : run)) };
}

/** Returns the device with the bytes free that were erased in the session. */
export function withErased<T extends Runs>(device: T, sessionNumber: number): T {
  return { ...device, runs: device.runs.filter(({ eraseSessionNumber }) => eraseSessionNumber !== sessionNumber) };
}

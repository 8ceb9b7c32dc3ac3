import type { DiskId } from "@diskmesh/domain";

/** Bytes of a device that a disk has, or that must be erased before their next use. Bytes without a run are free. */
export interface Run {
  /** First slice; 0 when the run covers all bytes of the device. */
  readonly first: number;
  /** Number of slices. Absent: the run covers all bytes of the device, as every run of 0.1.0 does. */
  readonly count?: number | undefined;
  /** Disk with a part there; empty when the bytes are dirty: data of a former disk, or unknown data. */
  readonly diskId: DiskId | "";
  /** Last session of the disk that was there, while the run is dirty; absent when it had none, or is not known. */
  readonly lastSessionNumber?: number | undefined;
  /** Session of the current erase; absent when none was issued. */
  readonly eraseSessionNumber?: number | undefined;
}

/** A session that an agent remembers and this registry never issued. */
export interface UnknownSession {
  readonly sessionNumber: number;
  /** Empty for an erase. */
  readonly diskId: DiskId | "";
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
  /** Sessions up to this number are of what was in the device's place before; absent for none. */
  readonly endedSessionNumber?: number | undefined;
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

/** Returns the disk's run that begins there; undefined for none. */
export function runAt({ runs }: Runs, diskId: string, first: number): Run | undefined {
  return runs.find((run) => run.first === first && run.diskId === diskId);
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

/** Returns the run that is erased now, or else is erased next; undefined for none. */
export function runToErase({ runs }: Runs): Run | undefined {
  const dirty = runs.filter(({ diskId }) => diskId === "");
  return dirty.find(({ eraseSessionNumber }) => eraseSessionNumber !== undefined) ?? dirty[0];
}

/** Returns the session of the device's current erase; 0 when none was issued. */
export function eraseSessionOf(device: Runs): number {
  return runToErase(device)?.eraseSessionNumber ?? 0;
}

/** Returns the device with another run for those that begin there. */
export function withRun<T extends Runs>(device: T, run: Run): T {
  const others = device.runs.filter(({ first }) => first !== run.first);
  return { ...device, runs: [...others, run].sort((a, b) => a.first - b.first) };
}

/** Returns the device with the disk on free slices, or on all its bytes. */
export function withDisk<T extends Runs>(device: T, diskId: DiskId, slices?: { first: number; count: number }): T {
  return withRun(
    device,
    slices === undefined ? { first: 0, diskId } : { first: slices.first, count: slices.count, diskId },
  );
}

/** Returns the device with all bytes dirty, and with no disk. */
export function allDirty<T extends Runs>(device: T): T {
  return { ...device, ...DIRTY };
}

/** Returns the device with the session for its next erase; without the session of its current erase for 0. */
export function withEraseSession<T extends Runs>(device: T, sessionNumber: number): T {
  const erased = runToErase(device);
  if (erased === undefined) return device;
  const { eraseSessionNumber: _, ...run } = erased;
  return withRun(device, sessionNumber === 0 ? run : { ...run, eraseSessionNumber: sessionNumber });
}

/** Returns the device with the bytes free that were erased in the session. */
export function withErased<T extends Runs>(device: T, sessionNumber: number): T {
  return { ...device, runs: device.runs.filter(({ eraseSessionNumber }) => eraseSessionNumber !== sessionNumber) };
}

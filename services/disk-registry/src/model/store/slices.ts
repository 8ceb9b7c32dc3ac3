import type { DeviceId, HostId } from "@diskmesh/domain";
import { allDirty, holdsAnyDisk, type Run, type Runs, withRun } from "./runs.js";

const KIB = 1_024;
const MIB = KIB * KIB;

/** Limits of a device's slice size, which is a power of two. */
export const [MIN_SLICE_BYTES, MAX_SLICE_BYTES] = [MIB, 16 * KIB * MIB];
/** Slice size from which the label area and the records are large, and which a device gets at most by itself. */
const LARGE_SLICE_BYTES = 64 * MIB;
const MAX_DEFAULT_SLICES = 1_024;
/** Maximum runs of a device. Its document lists them. */
export const MAX_RUNS_OF_DEVICE = 1_024;

/** Size of a device, and of its slices. */
export interface Sliced {
  /** Size in bytes; 0 when it is not known. */
  readonly sizeBytes: number;
  /** Bytes of a slice, a power of two. Absent: the device is not divided, so a disk takes all its bytes. */
  readonly sliceBytes?: number | undefined;
}

/** Consecutive slices. */
export interface SliceRange {
  readonly first: number;
  readonly count: number;
}

/** Consecutive bytes, as counted from the device's first one. */
export interface ByteRange {
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** Free bytes of a device that a part of a disk may take: all of them, or those of a range of slices. */
export interface Space {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
  readonly path: string;
  readonly pool: string;
  readonly blockSizeBytes: number;
  /** Size of the largest part that has room there. */
  readonly sizeBytes: number;
  /** Absent: all bytes of the device. */
  readonly slices?: (SliceRange & { readonly sliceBytes: number }) | undefined;
}

export function isSliceSize(bytes: number): boolean {
  return bytes >= MIN_SLICE_BYTES && bytes <= MAX_SLICE_BYTES && Number.isInteger(Math.log2(bytes));
}

/** Returns the slice size of a device for which nobody chose one. */
export function defaultSliceBytes(sizeBytes: number): number {
  let sliceBytes = MIN_SLICE_BYTES;
  while (sliceBytes < LARGE_SLICE_BYTES && sliceBytes * MAX_DEFAULT_SLICES < sizeBytes) sliceBytes *= 2;
  return sliceBytes;
}

/** Returns the bytes that are left for a label before the first slice, and in each run for a record beside its part. */
export function headBytes(sliceBytes: number): number {
  return sliceBytes < LARGE_SLICE_BYTES ? 64 * KIB : MIB;
}

/** Returns the number of a device's whole slices; 0 for a device without slices. */
export function sliceCount({ sizeBytes, sliceBytes }: Sliced): number {
  if (sliceBytes === undefined) return 0;
  return Math.max(0, Math.floor((sizeBytes - headBytes(sliceBytes)) / sliceBytes));
}

/** Returns the slices that a part of that size takes, with the record of its run. */
function slicesFor(sliceBytes: number, partBytes: number): number {
  return Math.ceil((partBytes + headBytes(sliceBytes)) / sliceBytes);
}

/** Returns the size of the part that slices in one run hold. */
export function partBytesIn(sliceBytes: number, count: number): number {
  return Math.max(0, count * sliceBytes - headBytes(sliceBytes));
}

/** Returns all bytes of the run: a session of the run covers them. */
export function bytesOf(
  { sizeBytes, sliceBytes = 0 }: Sliced,
  { first, count }: Pick<Run, "first" | "count">,
): ByteRange {
  if (count === undefined) return { offsetBytes: 0, sizeBytes };
  return { offsetBytes: headBytes(sliceBytes) + first * sliceBytes, sizeBytes: count * sliceBytes };
}

/** Returns the bytes of the run as orders name them: size 0 for all bytes of the device. */
export function orderedBytes(device: Sliced, run: Run): ByteRange {
  return run.count === undefined ? { offsetBytes: 0, sizeBytes: 0 } : bytesOf(device, run);
}

/** Returns where the part of a disk begins on the device: behind the record of its run. A run of 0.1.0 has no record. */
export function partOffsetBytes(device: Sliced, run: Run): number {
  const { offsetBytes } = bytesOf(device, run);
  return run.count === undefined ? offsetBytes : offsetBytes + headBytes(device.sliceBytes ?? 0);
}

/** Returns the slices in no run, in order. */
export function freeRanges(device: Sliced & Runs): readonly SliceRange[] {
  const free: SliceRange[] = [];
  let next = 0;
  for (const { first, count = Number.POSITIVE_INFINITY } of device.runs) {
    if (first > next) free.push({ first: next, count: first - next });
    next = first + count;
  }
  const end = sliceCount(device);
  return end > next ? [...free, { first: next, count: end - next }] : free;
}

/** Returns the free bytes of the device, as far as its runs say. */
export function spacesOf(device: Space & Sliced & Runs): readonly Space[] {
  const { sliceBytes, runs } = device;
  if (sliceBytes === undefined) return runs.length === 0 && device.sizeBytes > 0 ? [device] : [];
  const { deviceId, hostId, path, pool, blockSizeBytes } = device;
  const largestFirst = [...freeRanges(device)].sort((a, b) => b.count - a.count);
  return largestFirst.slice(0, Math.max(0, MAX_RUNS_OF_DEVICE - runs.length)).map(({ first, count }) => {
    const slices = { first, count, sliceBytes };
    return { deviceId, hostId, path, pool, blockSizeBytes, sizeBytes: partBytesIn(sliceBytes, count), slices };
  });
}

/** Returns the free bytes of the device once its dirty ones are erased. */
export function spacesOnceErased(device: Space & Sliced & Runs): readonly Space[] {
  return spacesOf({ ...device, runs: device.runs.filter(({ diskId }) => diskId !== "") });
}

/** Returns whether the device has bytes that no disk has. */
export function hasRoom(device: Space & Sliced & Runs): boolean {
  return !holdsAnyDisk(device) || spacesOnceErased(device).length > 0;
}

/** Returns whether free slices of the device are not used, because it has as many runs as a device may. */
export function isCrowded(device: Sliced & Runs): boolean {
  return device.runs.length >= MAX_RUNS_OF_DEVICE && freeRanges(device).length > 0;
}

/** Returns the bytes of the device that disks have, that must be erased, and that are free, as far as its runs say. */
export function bytesByUse(device: Sliced & Runs): {
  readonly disk: number;
  readonly dirty: number;
  readonly free: number;
} {
  const { sizeBytes, sliceBytes, runs } = device;
  let [disk, dirty] = [0, 0];
  for (const run of runs) {
    if (run.diskId === "") dirty += bytesOf(device, run).sizeBytes;
    else disk += bytesOf(device, run).sizeBytes;
  }
  const freeCount = freeRanges(device).reduce((sum, { count }) => sum + count, 0);
  const free = sliceBytes === undefined ? sizeBytes - disk - dirty : freeCount * sliceBytes;
  return { disk, dirty, free };
}

/** Returns the device with those of its free bytes dirty that are in the range. */
export function withDirtyBytes<T extends Sliced & Runs>(device: T, { offsetBytes, sizeBytes }: ByteRange): T {
  const { sliceBytes, runs } = device;
  if (sliceBytes === undefined) return runs.length === 0 ? allDirty(device) : device;
  const head = headBytes(sliceBytes);
  const from = Math.floor((offsetBytes - head) / sliceBytes);
  const end = Math.ceil((offsetBytes + sizeBytes - head) / sliceBytes);
  const dirty = freeRanges(device).flatMap((free): Run[] => {
    const first = Math.max(free.first, from);
    const count = Math.min(free.first + free.count, end) - first;
    return count > 0 ? [{ first, count, diskId: "" }] : [];
  });
  return dirty.reduce<T>(withRun, device);
}

/** Bytes of which the size of a part on slices is a multiple: the largest block of a drive. */
const PART_UNIT_BYTES = 4 * KIB;

/** Returns the size of the part, up to that size, that slices in one run hold. */
export function partBytesUpTo(sliceBytes: number, count: number, partBytes: number): number {
  return Math.min(partBytesIn(sliceBytes, count), Math.ceil(partBytes / PART_UNIT_BYTES) * PART_UNIT_BYTES);
}

/** Returns the sizes of the parts, one for each space, into which a part of that size is cut. */
export function sizesOn(spaces: readonly Space[], partBytes: number): readonly number[] {
  let restBytes = partBytes;
  return spaces.map(({ sizeBytes }) => {
    const taken = Math.min(restBytes, Math.floor(sizeBytes / PART_UNIT_BYTES) * PART_UNIT_BYTES);
    restBytes -= taken;
    return taken;
  });
}

/** Returns as much of the space as a part of that size takes, and all of it when the part is larger. */
export function fitted(space: Space, partBytes: number): Space {
  const { slices } = space;
  if (slices === undefined) return space;
  const count = Math.min(slices.count, slicesFor(slices.sliceBytes, partBytes));
  return { ...space, sizeBytes: partBytesUpTo(slices.sliceBytes, count, partBytes), slices: { ...slices, count } };
}

/** Returns the number of slices of the run once it holds a part of that size, as far as there are free ones behind it. */
export function lengthenedCount(device: Sliced & Runs, { first, count = 0 }: Run, partBytes: number): number {
  const behind = freeRanges(device).find((range) => range.first === first + count)?.count ?? 0;
  return Math.max(count, Math.min(count + behind, slicesFor(device.sliceBytes ?? MIN_SLICE_BYTES, partBytes)));
}

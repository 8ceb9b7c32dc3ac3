import { runAt, withRun } from "../store/runs.js";
import { type Disk, isFree, type RegistryTransaction } from "../store/schema.js";
import { lengthenedCount, partBytesUpTo } from "../store/slices.js";
import { isPlaceable, type WhySuspected } from "./placement.js";

/**
 * Lengthens the disk's last part within its run, and the run by free slices right behind it, as far as they go. Returns the
 * disk with the longer part; the same disk when nothing could be added.
 */
export function lengthenLast(
  tx: RegistryTransaction,
  disk: Disk,
  missingBytes: number,
  whySuspected: WhySuspected,
): Disk {
  const part = disk.parts.at(-1);
  const [copy, ...others] = part?.copies ?? [];
  const device = tx.devices.get(copy?.deviceId ?? "");
  const host = tx.hosts.get(device?.hostId ?? "");
  if (part?.sizeBytes === undefined || part.move !== undefined || copy === undefined || others.length > 0) return disk;
  if (device === undefined || host === undefined || !isFree(device) || !isPlaceable(host, whySuspected)) return disk;
  const run = runAt(device, disk.diskId, copy.first ?? 0);
  const { sliceBytes } = device;
  if (run?.count === undefined || sliceBytes === undefined) return disk;
  const { skipBytes = 0 } = copy;
  const neededBytes = skipBytes + part.sizeBytes + missingBytes;
  const count = lengthenedCount(device, run, neededBytes);
  const longer = { ...part, sizeBytes: partBytesUpTo(sliceBytes, count, neededBytes) - skipBytes };
  if (longer.sizeBytes <= part.sizeBytes) return disk;
  if (count !== run.count) tx.devices.put(withRun(device, { ...run, count }));
  const sizeBytes = disk.sizeBytes + longer.sizeBytes - part.sizeBytes;
  return { ...disk, sizeBytes, parts: [...disk.parts.slice(0, -1), longer] };
}

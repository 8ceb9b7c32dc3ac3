import type { RunRecord } from "@diskmesh/domain";
import type { Run } from "../store/runs.js";
import type { Device, Disk } from "../store/schema.js";
import { bytesOf, partOffsetBytes } from "../store/slices.js";

/** Fields that are equal in all records of a disk's session. */
interface RecordedSession {
  /** Number of the disk's changes within the session. */
  readonly layout: number;
  /** True when the last holder has written everything back. */
  readonly clean: boolean;
}

/** Returns the record of a disk's run on slices of the device. */
export function recordOf(disk: Disk, device: Device, run: Run, { layout, clean }: RecordedSession): RunRecord {
  const headBytes = partOffsetBytes(device, run) - bytesOf(device, run).offsetBytes;
  const parts = disk.parts.flatMap(({ copies, sizeBytes = 0 }, index) =>
    copies.flatMap(({ state, deviceId, first = 0, skipBytes = 0 }) =>
      state === "COUNTS" && deviceId === device.deviceId && first === run.first
        ? [{ index, offsetBytes: headBytes + skipBytes, sizeBytes }]
        : [],
    ),
  );
  const { sizeBytes: diskSizeBytes, blockSizeBytes, requested } = disk;
  return { diskSizeBytes, blockSizeBytes, pool: requested.pool, partCount: disk.parts.length, parts, layout, clean };
}

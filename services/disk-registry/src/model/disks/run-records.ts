import type { Run } from "../store/runs.js";
import type { Device, Disk } from "../store/schema.js";
import { bytesOf, partOffsetBytes } from "../store/slices.js";

/** Bytes of a disk on a run. */
interface RecordedPart {
  /** Position among the disk's parts. */
  readonly index: number;
  /** First byte, counted from the run's. */
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** What the record in a run's first bytes says of the run, beside disk and session. */
export interface RunRecord {
  readonly diskSizeBytes: number;
  readonly blockSizeBytes: number;
  readonly pool: string;
  readonly partCount: number;
  /** Parts that count and are on the run, in order. */
  readonly parts: RecordedPart[];
  readonly layout: number;
  readonly clean: boolean;
}

/** What is the same in all records of a disk's session. */
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

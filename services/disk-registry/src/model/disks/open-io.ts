import type { DeviceId } from "@diskmesh/domain";

/** Requests of a disk's users that were not answered, as its host reported them last. */
export interface OpenIo {
  readonly requests: number;
  /** Wall clock time of the oldest request. */
  readonly oldestAtMs: number;
  /** Wall clock time of the report. */
  readonly heardAtMs: number;
  /** Requests that the disk's limits delay. */
  readonly throttled: number;
  readonly waitsForDevice: DeviceId | undefined;
  /** Path of the block device of the host that has not passed the oldest request on; empty for none. */
  readonly waitsForBlockDevice: string;
}

/** Age in ms from which an open request is trouble. A healthy drive answers within a second, also behind a full queue. */
const STANDING_AFTER_MS = 5_000;

/** Returns whether the disk's I/O stands still for its users. */
export function ioStands(io: OpenIo | undefined): io is OpenIo {
  return io !== undefined && io.requests > 0 && io.heardAtMs - io.oldestAtMs >= STANDING_AFTER_MS;
}

import type { DiskIo } from "@diskmesh/api/registry";
import { durationOf } from "@diskmesh/rpc";
import type { DiskCounts } from "../base/io-counters.js";
import type { IoQueue } from "../model/io-queue.js";

/** Encodes the queue of a disk; an unknown one as empty. */
export function encodeQueue(queue: IoQueue | undefined): Omit<DiskIo, keyof DiskCounts> {
  const { openRequests = 0, throttledRequests = 0, waitsForDeviceId = "", waitsForBlockDevice = "" } = queue ?? {};
  const oldestRequestAge = queue === undefined || openRequests === 0 ? undefined : durationOf(queue.oldestAgeMs);
  return { openRequests, oldestRequestAge, throttledRequests, waitsForDeviceId, waitsForBlockDevice };
}

import type { DiskIo } from "@diskmesh/api/registry";
import { durationOf } from "@diskmesh/rpc";
import type { DiskCounts } from "../base/io-counters.js";
import type { EngineName } from "../engines/engine.js";
import type { IoQueue } from "../model/io-queue.js";

/** A disk that is served. */
export interface Served {
  /** Requests that are not answered; undefined while they are not known. */
  readonly queue: IoQueue | undefined;
  readonly engine: EngineName;
  /** Why engines that the host prefers do not carry the disk; empty for none. */
  readonly engineReason: string;
}

/** Encodes the queue of a disk, an unknown one as empty, and its engine. */
export function encodeServed({ queue, engine, engineReason }: Served): Omit<DiskIo, keyof DiskCounts> {
  const { openRequests = 0, throttledRequests = 0, waitsForDeviceId = "", waitsForBlockDevice = "" } = queue ?? {};
  const oldestRequestAge = queue === undefined || openRequests === 0 ? undefined : durationOf(queue.oldestAgeMs);
  const waits = { throttledRequests, waitsForDeviceId, waitsForBlockDevice };
  return { openRequests, oldestRequestAge, ...waits, engine, engineReason };
}

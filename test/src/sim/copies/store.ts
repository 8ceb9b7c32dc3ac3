import type { CopiedDisk, Steadiness } from "@diskmesh/disk-registry/simulation";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";

/** Durable state of the simulated registry. */
export class CopyStore {
  readonly disks: Map<DiskId, CopiedDisk>;
  /** Devices whose bytes nobody needs, before their erase. */
  readonly dirty: Set<DeviceId>;
  readonly steadiness: Map<HostId, Steadiness>;
  /** Devices that failed for good. */
  readonly removed: Set<DeviceId>;
  /** Times of the last drops of each device. */
  readonly drops: Map<DeviceId, readonly number[]>;
  /** Run of each host's agent that has registered last. */
  readonly runs: Map<HostId, string>;
  /** Last number of sessions and layouts. */
  counter: number;

  constructor(from?: CopyStore) {
    this.disks = new Map(from?.disks);
    this.dirty = new Set(from?.dirty);
    this.removed = new Set(from?.removed);
    this.drops = new Map(from?.drops);
    this.steadiness = new Map(from?.steadiness);
    this.runs = new Map(from?.runs);
    this.counter = from?.counter ?? 0;
  }

  next(): number {
    this.counter += 1;
    return this.counter;
  }

  /** Returns what a transaction decides that may take a new number. The number is issued when it decides something. */
  withNumber<T>(decide: (number: number) => T | undefined): T | undefined {
    const decided = decide(this.counter + 1);
    if (decided !== undefined) this.counter += 1;
    return decided;
  }

  /** Returns the devices that disks or their snapshots have. */
  used(): Set<DeviceId> {
    const used = new Set<DeviceId>();
    for (const { parts, snapshot } of this.disks.values()) {
      for (const { copies } of parts) for (const { deviceId } of copies) used.add(deviceId);
      for (const deviceId of snapshot?.targets ?? []) used.add(deviceId);
    }
    return used;
  }
}

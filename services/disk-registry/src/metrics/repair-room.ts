import { sumBytes } from "@diskmesh/domain";
import { type Follows, Tally } from "@diskmesh/tablet";
import { roomOn } from "../model/disks/capacity.js";
import { type Device, type Disk, type Host, isSound } from "../model/store/schema.js";

/** Bytes of a pool on a host. */
interface HostRoom {
  diskBytes: number;
  /** Bytes that are free, or to be erased. */
  freeBytes: number;
  devices: number;
}

const placeOf = (az: string, pool: string): string => `${az} ${pool}`;

/**
 * Keeps the sums that say whether any one host can be emptied, so that reading them costs as much as there are hosts, and
 * not devices. Suspicions of silence, which pass, are left out.
 */
export class RepairRoom {
  readonly #rooms = new Map<string, Map<string, HostRoom>>();
  readonly #hosts = new Map<string, { readonly az: string; readonly isSound: boolean }>();
  readonly disks = new Tally<Disk>(({ az, requested, sizeBytes, deleted }) =>
    deleted === undefined ? [] : [[placeOf(az, requested.pool), sizeBytes]],
  );
  readonly hosts: Follows<Host> = {
    changed: (hostId, host) => {
      if (host === null) this.#hosts.delete(hostId);
      else this.#hosts.set(hostId, { az: host.az, isSound: isSound(host) });
    },
  };
  readonly devices: Follows<Device> = {
    changed: (_, now, before) => {
      if (before !== null) this.#add(before, -1);
      if (now !== null) this.#add(now, 1);
    },
  };

  /** Returns the most bytes that lack in a pool of an az, so that its largest host can be emptied; 0 for none. */
  missingBytes(): number {
    const pools = new Map<string, { hosts: number; freeBytes: number; largestBytes: number }>();
    for (const [hostId, rooms] of this.#rooms) {
      const host = this.#hosts.get(hostId);
      if (host === undefined) continue;
      for (const [pool, { diskBytes, ...room }] of rooms) {
        const place = placeOf(host.az, pool);
        const freeBytes = host.isSound ? room.freeBytes : 0;
        const sums = pools.get(place) ?? { hosts: 0, freeBytes: this.disks.get(place), largestBytes: 0 };
        pools.set(place, sums);
        sums.hosts += 1;
        sums.freeBytes += freeBytes;
        sums.largestBytes = Math.max(sums.largestBytes, diskBytes + freeBytes);
      }
    }
    const missing = [...pools.values()].map(({ hosts, freeBytes, largestBytes }) =>
      hosts < 2 ? 0 : largestBytes - freeBytes,
    );
    return Math.max(0, ...missing);
  }

  #add(device: Device, sign: 1 | -1): void {
    const room = roomOn(device);
    if (room === undefined) return;
    const { hostId, pool } = device;
    const rooms = this.#rooms.get(hostId) ?? new Map<string, HostRoom>();
    this.#rooms.set(hostId, rooms);
    const sums = rooms.get(pool) ?? { diskBytes: 0, freeBytes: 0, devices: 0 };
    rooms.set(pool, sums);
    sums.diskBytes += sign * room.diskBytes;
    sums.freeBytes += sign * sumBytes([room.dirtyBytes, ...room.freeSizesBytes]);
    sums.devices += sign;
    if (sums.devices > 0) return;
    rooms.delete(pool);
    if (rooms.size === 0) this.#rooms.delete(hostId);
  }
}

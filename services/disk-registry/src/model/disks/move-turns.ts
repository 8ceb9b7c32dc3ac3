import { bytesText, type HostId, MIB_BYTES } from "@diskmesh/domain";
import { partSizeBytes } from "../store/layout.js";
import type { RegistryTables } from "../store/schema.js";
import { hasTarget, type Moving } from "./moves.js";

/** Copies in which a host takes part at once, as source or target, however large they are. */
const LARGE_COPIES = 2;
/** Copies in which a host takes part at once while all are small: their steps take longer than their bytes. */
export const SMALL_COPIES = 16;
/** Bytes of a host's copies up to which these are small. */
const SMALL_BYTES = 1_024 * MIB_BYTES;
/** Copies of the whole fleet at once, so that choosing the next one stays cheap. */
const COPIES_OF_FLEET = 128;

interface Copies {
  readonly count: number;
  readonly bytes: number;
}

const NONE: Copies = { count: 0, bytes: 0 };

/** Copies that have a target now, by the hosts that take part. */
export class MoveTurns {
  readonly #byHost = new Map<HostId, Copies>();
  #count = 0;

  constructor(tables: RegistryTables) {
    for (const { parts } of tables.disks.by("byMove", "copying")) {
      // A disk copies one part at a time, also when others have targets.
      const part = parts.find(hasTarget);
      if (part === undefined) continue;
      this.#count++;
      const sizeBytes = partSizeBytes(tables, part);
      const hosts = part.copies.flatMap(({ deviceId }) => tables.devices.get(deviceId)?.hostId ?? []);
      for (const hostId of new Set(hosts)) {
        const { count, bytes } = this.#of(hostId);
        this.#byHost.set(hostId, { count: count + 1, bytes: bytes + sizeBytes });
      }
    }
  }

  #of(hostId: HostId): Copies {
    return this.#byHost.get(hostId) ?? NONE;
  }

  /** Returns why the part gets no target now, wherever that is; undefined when it may. */
  whyNotYet({ source: { hostId }, sizeBytes }: Moving): string | undefined {
    if (this.#count >= COPIES_OF_FLEET) return `the fleet already has ${this.#count} copies at once`;
    const why = this.whyFull(hostId, sizeBytes);
    return why && `host ${hostId} ${why}`;
  }

  /** Returns why the host takes part in no other copy of this size now; undefined when it does. */
  whyFull(hostId: HostId, sizeBytes: number): string | undefined {
    const { count, bytes } = this.#of(hostId);
    if (count < LARGE_COPIES || (count < SMALL_COPIES && bytes + sizeBytes <= SMALL_BYTES)) return undefined;
    return `already takes part in ${count} copies of ${bytesText(bytes)}`;
  }

  /** Returns into how many equal shares the rate of each of these hosts is divided for its copies. */
  sharesOf(hostIds: readonly HostId[]): number {
    return Math.max(LARGE_COPIES, ...hostIds.map((hostId) => this.#of(hostId).count));
  }
}

import type { DiskId, HostId } from "@diskmesh/domain";
import type { Part } from "../model/store/disk-parts.js";
import type { RegistryTablet } from "../store/stored-schema.js";

/** Disks whose moves wait for their turn. The end of another copy wakes those that have waited longest. */
export class WaitingMoves {
  /** Hosts of the sources, by disk; the first one has waited longest. */
  readonly #waiting = new Map<DiskId, HostId>();

  constructor(
    private readonly tablet: Pick<RegistryTablet, "read">,
    /** Has the disk look for its turn. */
    private readonly wake: (diskId: DiskId) => void,
  ) {}

  add(diskId: DiskId, sourceHostId: HostId): void {
    this.#waiting.set(diskId, sourceHostId);
  }

  /** Forgets the disk, which has its turn or needs none. */
  delete(diskId: DiskId): void {
    this.#waiting.delete(diskId);
  }

  /** Leaves the disk's turn to another disk of its source's host. */
  pass(diskId: DiskId): void {
    const hostId = this.#waiting.get(diskId);
    if (this.#waiting.delete(diskId)) this.#wakeFirst(new Set([hostId]));
  }

  /** Wakes disks after a copy of one of these parts has ended. */
  async wakeNext(parts: readonly Part[]): Promise<void> {
    if (this.#waiting.size === 0) return;
    const deviceIds = parts.flatMap(({ copies }) => copies.map(({ deviceId }) => deviceId));
    const hosts = await this.tablet.read(({ devices }) => deviceIds.map((id) => devices.get(id)?.hostId));
    this.#wakeFirst(new Set(hosts));
  }

  /** Wakes the disk that has waited longest, and that of each of these hosts. */
  #wakeFirst(hosts: ReadonlySet<HostId | undefined>): void {
    const waiting = [...this.#waiting];
    const next = [...hosts].map((hostId) => waiting.find(([, source]) => source === hostId));
    for (const [diskId] of new Set([waiting[0], ...next].flatMap((each) => (each ? [each] : [])))) this.wake(diskId);
  }
}

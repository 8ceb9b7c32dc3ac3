import type { ExportDiskRequest, OpenSessionRequest } from "@diskmesh/api/agent";
import type { SimProcess } from "./timeline.js";
import type { World } from "./world.js";

/** What a host serves: which disk of that name, and in which history of the registry it was told to. */
export interface Life {
  /** Tells disks of one name apart. */
  readonly name: string;
  readonly epoch: number;
}

const NOBODYS: Life = { name: "", epoch: -1 };

/** Whose bytes are whose: names of disks, and after a restore session numbers too, are given out again. */
export class Lives {
  /** By history, disk and session. */
  readonly #given = new Map<string, Life>();
  /** By host, disk and session. */
  readonly #exported = new Map<string, Life>();
  /** By device and session. */
  readonly #eraseEpochs = new Map<string, number>();

  constructor(private readonly world: World) {}

  sent(method: string, request: unknown, from: SimProcess): void {
    if (method !== "OpenSession" && method !== "ExportDisk") return;
    const { rewinds } = this.world;
    const { diskId, sessionNumber } = request as OpenSessionRequest | ExportDiskRequest;
    const disk = rewinds.storeOf(from).disk(diskId);
    if (disk === undefined) return;
    const epoch = rewinds.epochOf(from);
    this.#given.set(`${epoch} ${diskId} ${sessionNumber}`, { name: nameOf(disk), epoch });
  }

  received(method: string, request: unknown, server: SimProcess, from: SimProcess): void {
    const epoch = this.world.rewinds.epochOf(from);
    if (method === "ExportDisk") {
      const { diskId, sessionNumber } = request as ExportDiskRequest;
      const life = this.#given.get(`${epoch} ${diskId} ${sessionNumber}`);
      if (life !== undefined) this.#exported.set(`${server.place} ${diskId} ${sessionNumber}`, life);
    }
    if (method === "EraseDevice") {
      const { deviceId, sessionNumber } = request as { deviceId: string; sessionNumber: number };
      this.#eraseEpochs.set(`${deviceId} ${sessionNumber}`, epoch);
    }
  }

  ofExport(host: string, diskId: string, session: number): Life {
    return this.#exported.get(`${host} ${diskId} ${session}`) ?? NOBODYS;
  }

  /** Whether the history of the registry that counts knows the disk. */
  isKnown(life: Life, diskId: string): boolean {
    const disk = this.world.store.disk(diskId);
    return life.epoch === this.world.rewinds.epoch || (disk !== undefined && nameOf(disk) === life.name);
  }

  /** Whether it is the history that counts in which the erase was ordered. */
  isErase(deviceId: string, session: number): boolean {
    return this.#eraseEpochs.get(`${deviceId} ${session}`) === this.world.rewinds.epoch;
  }
}

export function nameOf(disk: { readonly diskId: string; readonly createdAtMs: number }): string {
  return `${disk.diskId} of ${disk.createdAtMs}`;
}

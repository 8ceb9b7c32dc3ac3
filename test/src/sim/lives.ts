import type { ExportDiskRequest, OpenSessionRequest, UnexportDiskRequest } from "@diskmesh/api/internal";
import type { Device } from "@diskmesh/disk-registry/simulation";
import type { Life, World } from "./parts.js";
import type { SimStore } from "./store.js";
import type { SimProcess } from "./timeline.js";

const NOBODYS: Life = { name: "", diskId: "", epoch: -1 };

/**
 * Records which disk's bytes are where. Names of disks, and after a restore session numbers too, are given out again.
 */
export class Lives {
  /** Granted lives by history, disk and session. */
  readonly #given = new Map<string, Life>();
  /** Exported lives by host, disk and session. */
  readonly #exported = new Map<string, Life>();
  /** The disk's name at the last grant, by disk and session. */
  readonly #lastGiven = new Map<string, string>();
  /** The disk of the agent's last grant, by device; empty for an erase. */
  readonly #granted = new Map<string, string>();
  /** The disk that was on a device when the registry went back to before that disk, by device. */
  readonly #forgotten = new Map<string, string>();
  readonly #decided = new Set<string>();
  /** The erase epochs by device and session. */
  readonly #eraseEpochs = new Map<string, number>();

  constructor(private readonly world: World) {}

  sent(method: string, request: unknown, from: SimProcess): void {
    if (method !== "OpenSession" && method !== "ExportDisk" && method !== "UnexportDisk") return;
    // A request that ends only an export gives no session.
    if (method === "UnexportDisk" && (request as UnexportDiskRequest).openDeviceIds.length === 0) return;
    const { rewinds } = this.world;
    const { diskId, sessionNumber } = request as OpenSessionRequest | ExportDiskRequest | UnexportDiskRequest;
    const disk = rewinds.storeOf(from).disk(diskId);
    if (disk === undefined) return;
    const epoch = rewinds.epochOf(from);
    this.#given.set(`${epoch} ${diskId} ${sessionNumber}`, { name: nameOf(disk), diskId, epoch });
    this.#lastGiven.set(`${diskId} ${sessionNumber}`, nameOf(disk));
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

  /** An agent gave the device to that session. */
  granted(deviceId: string, diskId: string, session: number): void {
    this.#granted.set(deviceId, this.#lastGiven.get(`${diskId} ${session}`) ?? "");
  }

  /**
   * Returns true when the bytes on the device belong to the disk that the registry has there, as far as anybody can
   * tell.
   */
  isRight({ deviceId, diskId }: Device): boolean {
    const disk = this.world.store.disk(diskId);
    return disk !== undefined && this.#granted.get(deviceId) === nameOf(disk);
  }

  /** The registry goes on with what one store holds, and no more with what the other one does. */
  rewind(from: SimStore, to: SimStore): void {
    for (const { deviceId, diskId } of from.devices()) {
      const disk = from.disk(diskId);
      if (disk === undefined) continue;
      const now = to.disk(to.device(deviceId)?.diskId ?? "");
      if (now === undefined || nameOf(now) !== nameOf(disk)) this.#forgotten.set(deviceId, nameOf(disk));
    }
    // An earlier step back had gone further, and this one knows it again.
    for (const { deviceId, diskId } of to.devices()) {
      const disk = to.disk(diskId);
      if (disk !== undefined && this.#forgotten.get(deviceId) === nameOf(disk)) this.#forgotten.delete(deviceId);
    }
  }

  /** Nobody wants what is on the device any more. */
  giveUp(deviceId: string): void {
    this.#forgotten.delete(deviceId);
  }

  /** An operator says that the device is as the registry knows it. */
  decide(deviceId: string): void {
    this.giveUp(deviceId);
    this.#decided.add(deviceId);
  }

  /** Returns true when the agent may have obeyed an order that the registry has forgotten; the next order ends that. */
  isDecided(deviceId: string): boolean {
    return this.#decided.has(deviceId);
  }

  /** A disk came to be on the device. One of the name of that which was forgotten is that one again, made by whoever retries. */
  allocated(deviceId: string, diskId: string): void {
    if (this.#forgotten.get(deviceId)?.startsWith(`${diskId} of `)) this.giveUp(deviceId);
  }

  /** The host's agent remembers nothing: the registry cannot find out what it has forgotten. */
  cannotTell(host: string): void {
    for (const { deviceId } of this.world.placesOf(host)) this.#forgotten.delete(deviceId);
  }

  /** Zeros are on their way to a block of a device, in place of what a disk's user wrote there. */
  requireNotForgotten(deviceId: string, session: number, replaced: Life): void {
    if (this.#forgotten.get(deviceId) !== replaced.name || !this.isErase(deviceId, session)) return;
    this.world.violation(`${deviceId} is erased, and on it is ${replaced.name}, which the registry has forgotten`);
  }

  ofExport(host: string, diskId: string, session: number): Life {
    return this.#exported.get(`${host} ${diskId} ${session}`) ?? NOBODYS;
  }

  /** Returns true when the disk still exists in the registry's current history. */
  isCurrent({ diskId, name }: Life): boolean {
    const disk = this.world.store.disk(diskId);
    return disk !== undefined && nameOf(disk) === name;
  }

  /** Returns true when the registry's current history knows the disk. */
  isKnown(life: Life, diskId: string): boolean {
    const disk = this.world.store.disk(diskId);
    return life.epoch === this.world.rewinds.epoch || (disk !== undefined && nameOf(disk) === life.name);
  }

  /** Returns true when the erase was ordered in the registry's current history. */
  isErase(deviceId: string, session: number): boolean {
    return this.#eraseEpochs.get(`${deviceId} ${session}`) === this.world.rewinds.epoch;
  }
}

function nameOf(disk: { readonly diskId: string; readonly createdAtMs: number }): string {
  return `${disk.diskId} of ${disk.createdAtMs}`;
}

import type { ExportDiskRequest, OpenSessionRequest, UnexportDiskRequest } from "@diskmesh/api/internal";
import type { Device } from "@diskmesh/disk-registry/simulation";
import type { Life, World } from "./parts.js";
import type { SimStore } from "./store.js";
import type { SimProcess } from "./timeline.js";

const NOBODYS: Life = { name: "", diskId: "", epoch: -1 };

/** Whose bytes are whose: names of disks, and after a restore session numbers too, are given out again. */
export class Lives {
  /** By history, disk and session. */
  readonly #given = new Map<string, Life>();
  /** By host, disk and session. */
  readonly #exported = new Map<string, Life>();
  /** By disk and session: the name of the disk for which the session was given last. */
  readonly #lastGiven = new Map<string, string>();
  /** By device: for which disk its agent granted a session last; empty for an erase. */
  readonly #granted = new Map<string, string>();
  /** By device: the disk that was on it when the registry went back to before it was there. */
  readonly #forgotten = new Map<string, string>();
  readonly #decided = new Set<string>();
  /** By device and session. */
  readonly #eraseEpochs = new Map<string, number>();

  constructor(private readonly world: World) {}

  sent(method: string, request: unknown, from: SimProcess): void {
    if (method !== "OpenSession" && method !== "ExportDisk" && method !== "UnexportDisk") return;
    // Whoever ends an export alone gives no session.
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

  /** Whether what is on the device is of the disk that the registry knows there, as far as anybody can tell. */
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

  /** Whether its agent may have obeyed an order that the registry has forgotten, until the next one. */
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

  /** Whether the disk is still there, in the history of the registry that counts. */
  isCurrent({ diskId, name }: Life): boolean {
    const disk = this.world.store.disk(diskId);
    return disk !== undefined && nameOf(disk) === name;
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

function nameOf(disk: { readonly diskId: string; readonly createdAtMs: number }): string {
  return `${disk.diskId} of ${disk.createdAtMs}`;
}

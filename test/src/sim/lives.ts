import type { ExportDiskRequest, OpenSessionRequest, UnexportDiskRequest } from "@diskmesh/api/internal";
import { type Device, disksOn } from "@diskmesh/disk-registry/simulation";
import type { Life, World } from "./parts.js";
import type { SimProcess } from "./seed/timeline.js";
import type { SimStore } from "./store.js";

const NOBODYS: Life = { name: "", diskId: "", epoch: -1 };

/**
 * Records which disk's data is on which device. A "life" is one existence of a disk, because names of disks and, after
 * a restore, session numbers are reused.
 */
export class Lives {
  /** Lives of granted sessions, by history, disk and session. */
  readonly #given = new Map<string, Life>();
  /** Lives of exports, by host, disk and session. */
  readonly #exported = new Map<string, Life>();
  /** Name of the disk at the last grant, by disk and session. */
  readonly #lastGiven = new Map<string, string>();
  /** Disk of the agent's last grant, by device; empty for an erase. */
  readonly #granted = new Map<string, string>();
  /** Names of disks whose creation a rewind has undone, by device. */
  readonly #forgotten = new Map<string, Set<string>>();
  readonly #decided = new Set<string>();
  /** Epochs of erases, by device and session. */
  readonly #eraseEpochs = new Map<string, number>();

  constructor(private readonly world: World) {}

  sent(method: string, request: unknown, from: SimProcess): void {
    if (method !== "OpenSession" && method !== "ExportDisk" && method !== "UnexportDisk") return;
    // A request that only ends an export opens no session.
    if (method === "UnexportDisk" && isOnlyEnd(request as UnexportDiskRequest)) return;
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

  /** Records that an agent granted the session on the device. */
  granted(deviceId: string, diskId: string, session: number): void {
    this.#granted.set(deviceId, this.#lastGiven.get(`${diskId} ${session}`) ?? "");
  }

  /**
   * Returns whether the data written last on the device belongs to a disk that the registry has there, as far as the simulation
   * can tell.
   */
  isRight(device: Device): boolean {
    return namesOn(this.world.store, device).includes(this.#granted.get(device.deviceId) ?? "");
  }

  /** Records the disks that are undone because the registry continues with the store `to` instead of `from`. */
  rewind(from: SimStore, to: SimStore): void {
    for (const was of from.devices()) {
      const is = to.device(was.deviceId);
      const now = new Set(is === undefined ? [] : namesOn(to, is));
      for (const name of namesOn(from, was))
        if (!now.has(name)) this.#forgotten.set(was.deviceId, this.#forgottenOn(was.deviceId).add(name));
    }
    // Drops entries of disks that this store contains again, because an earlier rewind went further back.
    for (const is of to.devices()) for (const name of namesOn(to, is)) this.#forgottenOn(is.deviceId).delete(name);
  }

  #forgottenOn(deviceId: string): Set<string> {
    return this.#forgotten.get(deviceId) ?? new Set();
  }

  /** Forgets the undone disks on the device, because their data is no longer needed. */
  giveUp(deviceId: string): void {
    this.#forgotten.delete(deviceId);
  }

  /** Records that an operator has decided that the registry's record of the device is right. */
  decide(deviceId: string): void {
    this.giveUp(deviceId);
    this.#decided.add(deviceId);
  }

  /**
   * Returns whether the agent may have obeyed an order that the registry has forgotten. The device's next order ends
   * that state.
   */
  isDecided(deviceId: string): boolean {
    return this.#decided.has(deviceId);
  }

  /**
   * Records that a disk was placed on the device or deleted from it. A disk with the name of the undone one counts as
   * that disk: a client that retried created it again, or a client deleted it, which knows a disk by its name alone.
   */
  named(deviceId: string, diskId: string): void {
    for (const name of this.#forgottenOn(deviceId))
      if (name.startsWith(`${diskId} of `)) this.#forgottenOn(deviceId).delete(name);
  }

  /**
   * Drops the undone disks on the host's devices: the host's agent lost its memory, so the registry cannot detect what
   * it has forgotten.
   */
  cannotTell(host: string): void {
    for (const { deviceId } of this.world.placesOf(host)) this.#forgotten.delete(deviceId);
  }

  /** Requires that zeros do not overwrite data of a forgotten disk's user. */
  requireNotForgotten(deviceId: string, session: number, replaced: Life): void {
    if (!this.#forgottenOn(deviceId).has(replaced.name) || !this.isErase(deviceId, session)) return;
    this.world.violation(`${deviceId} is erased, and on it is ${replaced.name}, which the registry has forgotten`);
  }

  ofExport(host: string, diskId: string, session: number): Life {
    return this.#exported.get(`${host} ${diskId} ${session}`) ?? NOBODYS;
  }

  ofDisk(disk: { readonly diskId: string; readonly createdAtMs: number }): Life {
    return { name: nameOf(disk), diskId: disk.diskId, epoch: this.world.rewinds.epoch };
  }

  /** Returns whether the disk still exists in the registry's current history (see Rewinds). */
  isCurrent({ diskId, name }: Life): boolean {
    const disk = this.world.store.disk(diskId);
    return disk !== undefined && nameOf(disk) === name;
  }

  /** Returns whether the registry's current history contains the disk. */
  isKnown(life: Life, diskId: string): boolean {
    const disk = this.world.store.disk(diskId);
    return life.epoch === this.world.rewinds.epoch || (disk !== undefined && nameOf(disk) === life.name);
  }

  /** Returns whether the erase was ordered in the registry's current history. */
  isErase(deviceId: string, session: number): boolean {
    return this.#eraseEpochs.get(`${deviceId} ${session}`) === this.world.rewinds.epoch;
  }
}

/** Returns the names of the disks that the store has on the device. */
function namesOn(store: SimStore, device: Device): readonly string[] {
  return disksOn([device]).flatMap((diskId) => {
    const disk = store.disk(diskId);
    return disk === undefined ? [] : [nameOf(disk)];
  });
}

function nameOf(disk: { readonly diskId: string; readonly createdAtMs: number }): string {
  return `${disk.diskId} of ${disk.createdAtMs}`;
}

function isOnlyEnd({ openDeviceIds, openRuns }: UnexportDiskRequest): boolean {
  return openDeviceIds.length + openRuns.length === 0;
}

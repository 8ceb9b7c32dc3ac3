import { type CopiedDisk, isTrouble } from "@diskmesh/disk-registry/simulation";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import type { Random } from "../../random.js";
import type { Timeline } from "../seed/timeline.js";
import type { Drive } from "./drive.js";
import type { Registry } from "./registry.js";
import type { CopyScenario } from "./scenarios.js";
import type { Watch } from "./watch.js";
import type { Wishes } from "./wishes.js";

const LOOKS_EVERY_MS = 1_000;
/** Time after which a drive that has failed for good is taken out, and a loss is accepted. */
const PATIENCE_MS = 6_000;
/** Time after which a disk is given up whose last copies were on drives that have failed for good. */
const GIVES_UP_AFTER_MS = 60_000;

interface OperatorWorld {
  readonly random: Random;
  readonly timeline: Timeline;
  readonly scenario: CopyScenario;
  readonly hostIds: readonly HostId[];
  readonly deviceIds: readonly DeviceId[];
  readonly wants: Map<DiskId, HostId>;
  readonly registry: Registry;
  readonly wishes: Wishes;
  readonly watch: Watch;
  driveOf(deviceId: DeviceId): Drive;
  after(delayMs: number, run: () => void): void;
}

/** An operator, who takes out drives that have failed for good, speaks where copies are lost, and deletes disks. */
export class Operator {
  readonly #deleted = new Set<DiskId>();
  #disks = 0;

  constructor(private readonly world: OperatorWorld) {}

  begin(): void {
    this.#create(this.world.deviceIds);
    this.#act();
  }

  /** Wants the disk no more, also when a restore brings it back. */
  delete(diskId: DiskId): void {
    this.#deleted.add(diskId);
  }

  isDeleted(diskId: DiskId): boolean {
    return this.#deleted.has(diskId);
  }

  #act(): void {
    const { world } = this;
    const { leader, store } = world.registry;
    if (leader !== undefined) {
      for (const deviceId of world.deviceIds) this.#seeDevice(deviceId);
      for (const disk of store.disks.values())
        if (this.#waitsForMs(disk) > GIVES_UP_AFTER_MS && this.#isLost(disk)) this.delete(disk.diskId);
      for (const disk of [...store.disks.values()])
        if (this.#deleted.has(disk.diskId)) {
          world.wants.delete(disk.diskId);
          world.wishes.delete(disk);
        }
      const isProven = [...store.disks.values()].every(({ isUnproven }) => !isUnproven);
      if (isProven && ![...store.disks.keys()].some((diskId) => diskId.startsWith("disk-of-") === false))
        this.#create(world.registry.freeDevices(leader));
    }
    world.after(LOOKS_EVERY_MS, () => this.#act());
  }

  /** Makes a disk, if each of its copies has a device on another host. */
  #create(free: readonly DeviceId[]): void {
    const { scenario, random, hostIds, wants, wishes } = this.world;
    const left = new Set(free.filter((deviceId) => this.world.driveOf(deviceId).diedAtMs === undefined));
    const parts = Array.from({ length: scenario.partCount }, () => {
      const devices = shuffled(random, hostIds)
        .flatMap((hostId) => [...left].find((each) => this.world.driveOf(each).hostId === hostId) ?? [])
        .slice(0, scenario.copies);
      for (const deviceId of devices) left.delete(deviceId);
      return devices;
    });
    if (parts.some(({ length }) => length < scenario.copies)) return;
    this.#disks += 1;
    const diskId = `disk-${this.#disks}` as DiskId;
    wishes.create(diskId, scenario.copies, parts);
    wants.set(diskId, random.pick(hostIds));
  }

  #seeDevice(deviceId: DeviceId): void {
    const { registry, timeline, random, watch } = this.world;
    const { store } = registry;
    const { diedAtMs } = this.world.driveOf(deviceId);
    if (diedAtMs !== undefined) {
      if (timeline.nowMs - diedAtMs > PATIENCE_MS) this.#takeOut(deviceId);
    } else if (isTrouble(store.drops.get(deviceId) ?? [], timeline.nowMs) && random.chance(0.1)) {
      store.drops.delete(deviceId);
      watch.looked(deviceId);
    }
  }

  #takeOut(deviceId: DeviceId): void {
    const { store } = this.world.registry;
    store.removed.add(deviceId);
    store.dirty.delete(deviceId);
    for (const disk of [...store.disks.values()]) {
      const left = this.world.wishes.remove(disk, deviceId, this.#waitsForMs(disk) > PATIENCE_MS);
      if (typeof left !== "number" || this.world.wishes.accept(disk, left)) continue;
      this.#deleted.add(disk.diskId);
    }
  }

  readonly #unprovenSinceMs = new Map<string, number>();

  /** Returns whether only drives that have failed for good have the last set of copies of a part. */
  #isLost({ diskId, parts }: CopiedDisk): boolean {
    const drives = this.world.deviceIds.map((deviceId) => this.world.driveOf(deviceId));
    return parts.some((_, part) => {
      const having = drives.filter(({ ownRecord: own }) => own?.diskId === diskId && own.part === part);
      const layout = Math.max(...having.map(({ ownRecord }) => ownRecord?.layout ?? 0));
      return having.every(({ ownRecord, diedAtMs }) => ownRecord?.layout !== layout || diedAtMs !== undefined);
    });
  }

  /** Returns the time for which an unproven disk has waited for devices. */
  #waitsForMs({ diskId, isUnproven, publication }: CopiedDisk): number {
    if (!isUnproven) return 0;
    const { nowMs } = this.world.timeline;
    const key = `${diskId} ${publication?.session}`;
    const sinceMs = this.#unprovenSinceMs.get(key) ?? nowMs;
    this.#unprovenSinceMs.set(key, sinceMs);
    return nowMs - sinceMs;
  }
}

function shuffled<T>(random: Random, items: readonly T[]): readonly T[] {
  const left = [...items];
  return items.map(() => left.splice(random.below(left.length), 1)[0] as T);
}

import {
  acceptDroppedCopy,
  beginSnapshot,
  type CopiedDisk,
  changePart,
  devicesIn,
  isDeletable,
  offers,
  removeDevice,
} from "@diskmesh/disk-registry/simulation";
import type { DeviceId, DiskId } from "@diskmesh/domain";
import type { CopyWorld } from "./parts.js";
import type { Registry } from "./registry.js";
import type { Watch } from "./watch.js";

interface WishesWorld extends CopyWorld {
  readonly registry: Registry;
  readonly watch: Watch;
}

/** Wishes of users and operators, as the registry carries them out. */
export class Wishes {
  constructor(private readonly world: WishesWorld) {}

  get #registry(): Registry {
    return this.world.registry;
  }

  create(diskId: DiskId, copiesWished: number, devices: readonly (readonly DeviceId[])[]): void {
    this.#registry.commit({
      diskId,
      copiesWished,
      lastSession: this.#registry.store.next(),
      parts: devices.map((each, part) => ({
        layout: this.#recordNew(diskId, part, each),
        copies: each.map((deviceId) => ({ deviceId, state: "COUNTS" })),
      })),
    });
  }

  /** A disk exists once its devices have records. */
  #recordNew(diskId: DiskId, part: number, counting: readonly DeviceId[]): number {
    const layout = this.#registry.store.next();
    const record = {
      diskId,
      part,
      layout,
      session: layout,
      counting,
      remembered: [],
      copying: [],
      own: "COUNTS",
    } as const;
    for (const deviceId of counting) this.world.driveOf(deviceId).writeRecord(record);
    return layout;
  }

  /** Has a copy move. Returns its device; undefined for none. */
  move(diskId: DiskId, index: number): DeviceId | undefined {
    const disk = this.#registry.store.disks.get(diskId);
    const part = disk?.parts[index];
    if (disk === undefined || part === undefined || part.moveFrom !== undefined || disk.isUnproven) return undefined;
    const counting = devicesIn(part, "COUNTS");
    if (counting.length === 0) return undefined;
    const moveFrom = this.world.random.pick(counting);
    this.#registry.commit(changePart(disk, index, (each) => ({ ...each, moveFrom })));
    return moveFrom;
  }

  snapshot(diskId: DiskId, jobId: string): void {
    const { leader, store } = this.#registry;
    const disk = store.disks.get(diskId);
    if (leader === undefined || disk === undefined) return;
    const free = [...this.#registry.freeDevices(leader)];
    const targets = disk.parts.flatMap(() =>
      free.length > 0 ? free.splice(this.world.random.below(free.length), 1) : [],
    );
    const job = { jobId, diskId: this.world.snapshotId(jobId), targets };
    this.#registry.commit(store.withNumber((session) => beginSnapshot(disk, job, session)));
  }

  /** Deletes the disk unless it is used. */
  delete(disk: CopiedDisk): void {
    if (isDeletable(disk)) this.#registry.delete(disk.diskId);
  }

  /** Forgets a device of the disk. Returns the part that would have no copy left; undefined for none. */
  remove(disk: CopiedDisk, deviceId: DeviceId, isLossAccepted: boolean): number | "UNPROVEN" | undefined {
    const { store, leader } = this.#registry;
    const isGone = (each: DeviceId): boolean => this.world.driveOf(each).diedAtMs !== undefined;
    const awaited = leader?.awaited.get(disk.diskId)?.filter((each) => !isGone(each));
    const at = { layout: store.counter + 1, awaited: isLossAccepted ? awaited : undefined };
    const answer = removeDevice(disk, deviceId, at);
    if (answer.is === "refused") return answer.why === "UNPROVEN" ? "UNPROVEN" : answer.part;
    if (answer.disk === disk) return undefined;
    store.counter += 1;
    if (disk.isUnproven) this.world.watch.accepted(disk.diskId, undefined);
    this.#registry.commit(answer.disk);
    return undefined;
  }

  /**
   * Has the copy count that loses least, of those on drives that have not failed for good. Returns false when none is
   * offered. Does nothing while the disk is used.
   */
  accept(disk: CopiedDisk, part: number): boolean {
    const isDead = (deviceId: DeviceId): boolean => this.world.driveOf(deviceId).diedAtMs !== undefined;
    const [offer] = offers(disk, part, (deviceId) => this.world.hostOf(deviceId)).filter(
      ({ deviceId }) => !isDead(deviceId),
    );
    if (offer === undefined) return false;
    const { deviceId, sinceMs } = offer;
    const { store, leader } = this.#registry;
    const wordOn = (each: DeviceId): "SAID_DEAD" | "HEARD" => (isDead(each) ? "SAID_DEAD" : "HEARD");
    const at = { layout: store.counter + 1, wordOn, awaited: leader?.awaited.get(disk.diskId) };
    const answer = acceptDroppedCopy(disk, { part, deviceId }, at);
    if (answer.is === "refused") return true;
    store.counter += 1;
    this.world.watch.accepted(disk.diskId, { part, deviceId, sinceMs });
    this.#registry.commit(answer.disk);
    return true;
  }
}

import { type Disk, disksOn } from "@diskmesh/disk-registry/simulation";
import { BLOCK_BYTES } from "./machine.js";
import type { Plan, World } from "./parts.js";
import { takeIn, until, wait } from "./plans.js";
import { DISK_IDS } from "./requests.js";

const PATIENCE_TURNS = 30;
const LARGEST_BLOCKS = 20;
/** Blocks of a part that takes five slices, or one and four others. */
const TWO_RUNS_BLOCKS = 78;

/** Makes, uses, grows, moves and deletes disks that share drives, so that runs are taken, freed and taken again. */
export function* useSlices(world: World): Plan {
  const { requests, store, hosts, random } = world;
  for (;;) {
    const isIn = () => [...store.devices()].every(({ attachState }) => attachState === "ATTACHED");
    for (const hostId of hosts) yield* until(isIn, () => takeIn(world, hostId), PATIENCE_TURNS);
    const diskId = random.pick(DISK_IDS);
    const disk = (): Disk | undefined => store.disk(diskId);
    const sizeBytes = BLOCK_BYTES * (1 + random.below(random.pick([8, LARGEST_BLOCKS])));
    const isThere = () => disk() !== undefined;
    yield* until(isThere, () => requests.createDisk(diskId, sizeBytes, ""), PATIENCE_TURNS);
    const isInUse = () => disk()?.publication?.state === "PUBLISHED";
    const holder = random.pick(hosts);
    if (random.chance(0.8)) yield* until(isInUse, () => requests.publishDisk(diskId, holder), PATIENCE_TURNS);
    yield* wait(random.below(10));
    if (random.chance(0.7)) yield* grow(world, diskId);
    else if (random.chance(0.4)) requests.move("migrateDisk", { diskId, hostId: random.pick(hosts) });
    else if (random.chance(0.2)) removeOne(world);
    yield* wait(random.below(20));
    if (random.chance(0.3)) continue;
    const isIdle = () => disk()?.publication === undefined;
    yield* until(isIdle, () => requests.unpublishDisk(diskId, ""), PATIENCE_TURNS);
    if (isIdle() && random.chance(0.7)) requests.deleteDisk(diskId);
  }
}

/**
 * Has a disk move to a host on whose drive no run is as long as the disk's, so that its part is split, and lets the move
 * be cancelled, the disk grow, and processes end.
 */
export function* splitParts(world: World): Plan {
  const { requests, store, hosts, random } = world;
  const [first = "", middle = "", last = ""] = DISK_IDS;
  const disk = (): Disk | undefined => store.disk(middle);
  for (;;) {
    const isIn = () => [...store.devices()].every(({ attachState }) => attachState === "ATTACHED");
    for (const hostId of hosts) yield* until(isIn, () => takeIn(world, hostId), PATIENCE_TURNS);
    const [from = "", to = ""] = random.chance(0.5) ? hosts : [...hosts].reverse();
    for (const diskId of [first, middle, last])
      yield* until(
        () => store.disk(diskId) !== undefined,
        () => requests.createDisk(diskId, BLOCK_BYTES, to),
        PATIENCE_TURNS,
      );
    yield* until(
      () => disk() === undefined,
      () => requests.deleteDisk(middle),
      PATIENCE_TURNS,
    );
    const create = () => requests.createDisk(middle, BLOCK_BYTES * TWO_RUNS_BLOCKS, from);
    yield* until(() => disk() !== undefined, create, PATIENCE_TURNS);
    const isInUse = () => disk()?.publication?.state === "PUBLISHED";
    const publish = () => requests.publishDisk(middle, random.pick(hosts));
    if (random.chance(0.5)) yield* until(isInUse, publish, PATIENCE_TURNS);
    yield* wait(random.below(10));
    requests.move("migrateDisk", { diskId: middle, hostId: to });
    const isMoving = () => disk()?.parts.some(({ move, copies }) => move !== undefined || copies.length > 1) === true;
    yield* wait(PATIENCE_TURNS, isMoving);
    yield* wait(random.below(15), () => !isMoving());
    if (random.chance(0.2)) requests.move("cancelMove", { diskId: middle });
    if (random.chance(0.3)) requests.resizeDisk(middle, BLOCK_BYTES * (TWO_RUNS_BLOCKS + random.below(10)));
    yield* wait(PATIENCE_TURNS, () => !isMoving());
    const isIdle = () => DISK_IDS.every((diskId) => store.disk(diskId)?.publication === undefined);
    yield* until(isIdle, () => requests.unpublishDisk(middle, ""), PATIENCE_TURNS);
    const isGone = () => DISK_IDS.every((diskId) => store.disk(diskId) === undefined);
    const deleteAll = () => {
      for (const diskId of DISK_IDS) requests.deleteDisk(diskId);
    };
    yield* until(isGone, deleteAll, PATIENCE_TURNS);
  }
}

/** Has the disk grow a few times, so that late requests of its session name a shorter run. */
function* grow({ requests, store, random }: World, diskId: string): Plan {
  for (let times = 1 + random.below(3); times > 0; times--) {
    const { sizeBytes = 0 } = store.disk(diskId) ?? {};
    requests.resizeDisk(diskId, sizeBytes + BLOCK_BYTES * (1 + random.below(LARGEST_BLOCKS / 2)));
    yield* wait(random.below(8));
  }
}

/** Removes a device, with or without disks. */
function removeOne({ requests, store, random }: World): void {
  const devices = [...store.devices()];
  if (devices.length === 0) return;
  const { hostId, deviceId } = random.pick(devices.filter((device) => disksOn([device]).length > 0).concat(devices));
  requests.cms("removeDevice", { hostId, deviceId });
}

import { type Disk, disksOn } from "@diskmesh/disk-registry/simulation";
import { BLOCK_BYTES } from "./machine.js";
import type { Plan, World } from "./parts.js";
import { takeIn, until, wait } from "./plans.js";
import { DISK_IDS } from "./requests.js";

const PATIENCE_TURNS = 30;
const LARGEST_BLOCKS = 20;

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

import type { Disk } from "@diskmesh/disk-registry/simulation";
import { BLOCK_BYTES } from "./machine.js";
import type { Plan, World } from "./parts.js";
import { takeIn, until, wait } from "./plans.js";
import { DISK_IDS } from "./requests.js";

const PATIENCE_TURNS = 40;
const HEALING_TURNS = 400;
const DISK_BYTES = 4 * BLOCK_BYTES;

/** Has drives of one host change places, two of them or all, while disks on them are served there and elsewhere. */
export function* exchangeDrives(world: World): Plan {
  const { requests, store, hosts, random } = world;
  const [hostId = ""] = hosts;
  const places = world.placesOf(hostId);
  for (;;) {
    const isLabelled = () => places.every(({ deviceId }) => store.device(deviceId)?.label !== undefined);
    yield* until(isLabelled, () => takeIn(world, hostId), PATIENCE_TURNS);
    for (const diskId of DISK_IDS) {
      const disk = (): Disk | undefined => store.disk(diskId);
      const isThere = () => disk() !== undefined;
      yield* until(isThere, () => requests.createDisk(diskId, DISK_BYTES, hostId), PATIENCE_TURNS);
      const isInUse = () => disk()?.publication?.state === "PUBLISHED";
      yield* until(isInUse, () => requests.publishDisk(diskId, random.pick(hosts)), PATIENCE_TURNS);
    }
    yield* wait(10 + random.below(20));
    const node = world.agentOf(hostId);
    if (!isLabelled() || node === undefined) continue;
    if (random.chance(0.5)) world.endAgent(node, random.chance(0.5));
    const [first = "", second = "", third = ""] = places.map(({ path }) => path);
    node.machine.exchange(first, second);
    if (random.chance(0.5)) node.machine.exchange(second, third);
    world.trace(`the drives of ${hostId} have changed places`);
    yield* haveFollowed(world, hostId);
    yield* wait(10 + random.below(20));
  }
}

/** Waits until each device is where its drive is. */
function* haveFollowed(world: World, hostId: string): Plan {
  const haveAll = () =>
    world.placesOf(hostId).every(({ deviceId }) => world.bytes.isOwnDrive(hostId, deviceId) !== false);
  yield* wait(HEALING_TURNS, haveAll);
}

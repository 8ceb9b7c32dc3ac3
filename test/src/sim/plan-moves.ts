import { countingDevices, type Disk } from "@diskmesh/disk-registry/simulation";
import { BLOCK_BYTES } from "./machine.js";
import type { Plan, World } from "./parts.js";
import { takeIn, until, wait } from "./plans.js";

const DISK_ID = "disk-1";
const PATIENCE_TURNS = 40;

/** Has a disk move again and again, in use or idle, and lets somebody fail or change his mind in between. */
export function* moveDisks(world: World): Plan {
  const { requests, store, hosts, random } = world;
  const disk = (): Disk | undefined => store.disk(DISK_ID);
  for (;;) {
    const isIn = () => [...store.devices()].every(({ attachState }) => attachState === "ATTACHED");
    for (const hostId of hosts) yield* until(isIn, () => takeIn(world, hostId), PATIENCE_TURNS);
    const sizeBytes = BLOCK_BYTES * random.pick([1, 2, 2, 3]);
    const isThere = () => disk() !== undefined;
    yield* until(isThere, () => requests.createDisk(DISK_ID, sizeBytes, ""), PATIENCE_TURNS);
    const isInUse = () => disk()?.publication?.state === "PUBLISHED";
    const holder = random.pick(hosts);
    if (random.chance(0.7)) yield* until(isInUse, () => requests.publishDisk(DISK_ID, holder), PATIENCE_TURNS);
    yield* wait(random.below(6));
    haveItMove(world);
    const isMoving = () => disk()?.parts.some(({ move, copies }) => move !== undefined || copies.length > 1) === true;
    yield* wait(PATIENCE_TURNS, isMoving);
    yield* wait(random.below(10), () => !isMoving());
    if (random.chance(0.6)) meddle(world);
    yield* wait(PATIENCE_TURNS, () => !isMoving());
    const isIdle = () => disk()?.publication === undefined;
    if (random.chance(0.4)) yield* until(isIdle, () => requests.unpublishDisk(DISK_ID, ""), PATIENCE_TURNS);
    if (isIdle() && random.chance(0.2)) requests.deleteDisk(DISK_ID);
  }
}

function haveItMove({ requests, store, hosts, random }: World): void {
  const disk = store.disk(DISK_ID);
  const deviceId = random.pick(disk === undefined ? [""] : countingDevices(disk));
  const { hostId = "" } = store.device(deviceId) ?? {};
  const ways: readonly (() => void)[] = [
    () => requests.move("migrateDisk", { diskId: DISK_ID, hostId: "" }),
    () => requests.move("migrateDisk", { diskId: DISK_ID, hostId: random.pick(hosts) }),
    () => requests.move("replaceDevice", { diskId: DISK_ID, deviceId }),
    () => requests.cms("removeDevice", { hostId, deviceId }),
    () => requests.cms("removeHost", { hostId }),
  ];
  random.pick(ways)();
}

/** Lets a process end, or another request cross the move. */
function meddle(world: World): void {
  const { requests, store, hosts, random } = world;
  const disk = store.disk(DISK_ID);
  const endAgentOf = (hostId: string | undefined): void => {
    const node = world.agentOf(hostId ?? "");
    if (node !== undefined) world.endAgent(node, random.chance(0.3));
  };
  const copyOn = (state: string) =>
    disk?.parts.flatMap(({ copies }) => copies).find((copy) => copy.state === state)?.deviceId ?? "";
  // A publication fences off a copy between agents.
  if (disk?.publication === undefined && random.chance(0.5))
    return void requests.publishDisk(DISK_ID, random.pick(hosts));
  const ways: readonly (() => void)[] = [
    () => endAgentOf(store.device(copyOn("COUNTS"))?.hostId),
    () => endAgentOf(store.device(copyOn("COPYING"))?.hostId),
    () => endAgentOf(disk?.publication?.hostId),
    () => {
      const leader = world.leader();
      if (leader !== undefined) world.endRegistry(leader);
    },
    () => requests.move("cancelMove", { diskId: DISK_ID }),
    () => requests.unpublishDisk(DISK_ID, ""),
    () => requests.publishDisk(DISK_ID, random.pick(hosts)),
    () => requests.fenceHost(disk?.publication?.hostId ?? ""),
  ];
  random.pick(ways)();
}

/** Has a disk move that is attached, detached and fenced again and again meanwhile. */
export function* interruptMoves(world: World): Plan {
  const { requests, store, hosts, random } = world;
  const disk = (): Disk | undefined => store.disk(DISK_ID);
  const isIdle = () => disk()?.publication === undefined;
  for (;;) {
    const isIn = () => [...store.devices()].every(({ attachState }) => attachState === "ATTACHED");
    for (const hostId of hosts) yield* until(isIn, () => takeIn(world, hostId), PATIENCE_TURNS);
    const isThere = () => disk() !== undefined;
    yield* until(isThere, () => requests.createDisk(DISK_ID, 3 * BLOCK_BYTES, ""), PATIENCE_TURNS);
    if (disk()?.parts.every(({ move }) => move === undefined)) haveItMove(world);
    yield* wait(random.below(12));
    const holder = random.pick(hosts);
    const isInUse = () => disk()?.publication?.state === "PUBLISHED";
    yield* until(isInUse, () => requests.publishDisk(DISK_ID, holder), PATIENCE_TURNS);
    yield* wait(random.below(12));
    if (random.chance(0.15)) requests.fenceHost(disk()?.publication?.hostId ?? "");
    if (random.chance(0.1)) meddle(world);
    yield* until(isIdle, () => requests.unpublishDisk(DISK_ID, ""), PATIENCE_TURNS);
  }
}

import type { Device, Disk } from "@diskmesh/disk-registry/simulation";
import { BLOCK_BYTES } from "./machine.js";
import type { Plan, World } from "./parts.js";
import { until, wait } from "./plans.js";
import { DISK_IDS } from "./requests.js";

const PATIENCE_TURNS = 40;
const DISK_BYTES = 4 * BLOCK_BYTES;
const PATH = "/dev/a";

/**
 * Has a device adopt the drive of another host, with the disk on it, while a disk is served there that the device had
 * before it was purged.
 */
export function* adoptDrives(world: World): Plan {
  const { requests, store, hosts, random } = world;
  const [former = "", adopted = ""] = DISK_IDS;
  for (;;) {
    const [to = "", from = ""] = random.chance(0.5) ? hosts : [...hosts].reverse();
    const device = (hostId: string): Device | undefined => store.device(`${hostId}-a`);
    yield* deleteAll(world);
    const isLabelled = (hostId: string) => device(hostId)?.label !== undefined;
    const isForeign = (hostId: string) => device(hostId)?.foundLabel !== undefined;
    for (const hostId of hosts)
      yield* until(
        () => isLabelled(hostId),
        () => requests.cms("addDevice", { ...named(hostId), eraseForeign: isForeign(hostId) }),
        PATIENCE_TURNS,
      );
    if (!hosts.every(isLabelled)) continue;
    for (const [diskId, hostId] of [
      [former, to],
      [adopted, from],
    ] as const)
      yield* putInUse(world, diskId, hostId);
    yield* wait(4 + random.below(10));
    const isOut = () => device(to)?.attachState === "UNKNOWN" && device(to)?.detachConfirmed === true;
    if (random.chance(0.7)) yield* until(isOut, () => requests.cms("purgeDevice", { ...named(to), force: true }), 30);
    const isPurged = isOut();
    exchangeDrives(world, to, from);
    if (isPurged) requests.cms("addDevice", named(to));
    yield* wait(random.below(6));
    const isAdopted = () => store.disk(adopted)?.parts.every(({ copies: [copy] }) => copy?.deviceId === `${to}-a`);
    yield* until(
      () => isAdopted() === true,
      () => requests.adoptDevice(named(to)),
      PATIENCE_TURNS,
    );
    yield* wait(10 + random.below(20));
    if (!isAdopted()) exchangeDrives(world, to, from);
  }
}

const named = (hostId: string) => ({ hostId, deviceId: `${hostId}-a` });

/** Swaps the drives of two hosts while their machines are off. */
function exchangeDrives(world: World, to: string, from: string): void {
  const nodes = world.agents().filter(({ machine: { host } }) => host === to || host === from);
  for (const node of nodes) world.endAgent(node, true);
  const [one, other] = nodes;
  if (one !== undefined && other !== undefined) one.machine.exchangeWith(other.machine, PATH);
  world.trace(`the drives of ${to} and ${from} have changed places`);
}

function* putInUse({ requests, store }: World, diskId: string, hostId: string): Plan {
  const disk = (): Disk | undefined => store.disk(diskId);
  const isThere = () => disk() !== undefined;
  yield* until(isThere, () => requests.createDisk(diskId, DISK_BYTES, hostId), PATIENCE_TURNS);
  const isInUse = () => disk()?.publication?.state === "PUBLISHED";
  yield* until(isInUse, () => requests.publishDisk(diskId, hostId), PATIENCE_TURNS);
}

/** Deletes all disks, so that nothing is lost when a drive is erased. */
function* deleteAll({ requests, store }: World): Plan {
  for (const diskId of DISK_IDS) {
    const isIdle = () => store.disk(diskId)?.publication === undefined;
    yield* until(isIdle, () => requests.unpublishDisk(diskId, ""), PATIENCE_TURNS);
    const isGone = () => store.disk(diskId) === undefined;
    yield* until(isGone, () => requests.deleteDisk(diskId), PATIENCE_TURNS);
  }
}

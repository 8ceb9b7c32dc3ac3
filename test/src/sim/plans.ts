import { HostState, OnHostSilence } from "@diskmesh/api/registry";
import { countingDevices, type Device, eraseSessionOf } from "@diskmesh/disk-registry/simulation";
import { BLOCK_BYTES } from "./machine.js";
import { freeBytesOf, isIdle } from "./operator.js";
import type { AgentRun, Plan, World } from "./parts.js";
import { REGISTRY_PLACES } from "./registry-node.js";
import { DISK_IDS } from "./requests.js";

/** Turns after which a request is repeated. */
const PATIENCE_TURNS = 6;

/** Repeats a request until the condition holds, or for this number of turns. */
export function* until(isSo: () => boolean, ask: () => void, turns = Number.POSITIVE_INFINITY): Plan {
  for (let turn = 0; turn < turns && !isSo(); turn++) {
    if (turn % PATIENCE_TURNS === 0) ask();
    yield;
  }
}

export function* wait(turns: number, isSo: () => boolean = () => false): Plan {
  for (let turn = 0; turn < turns && !isSo(); turn++) yield;
}

/** Adds all devices of a host, including those without an identity. */
export function takeIn(world: World, hostId: string): void {
  for (const { deviceId } of world.placesOf(hostId))
    world.requests.cms("addDevice", { hostId, deviceId, acceptUnidentified: true });
}

/**
 * Operates the devices of two hosts on one shared drive alternately. Each device leaves operation while it is erased,
 * or after a disk was on it.
 */
export function* takeTurnsOnSharedBytes(world: World): Plan {
  const { random, requests, store } = world;
  for (;;)
    for (const hostId of world.hosts) {
      const named = { hostId, deviceId: `${hostId}-s` };
      const device = (): Device | undefined => store.device(named.deviceId);
      const isIn = () => device()?.attachState === "ATTACHED";
      yield* until(isIn, () => requests.cms("addDevice", named));
      if (random.chance(0.5)) yield* haveATenant(world, hostId);
      else yield* wait(PATIENCE_TURNS, () => eraseSessionOf(device() ?? { runs: [] }) !== 0);
      const keepData = random.chance(0.9);
      const leave = () => requests.cms("removeDevice", { ...named, keepData });
      const isGone = () => store.disk("disk-1") === undefined;
      if (!isGone()) leave();
      yield* until(isGone, () => requests.deleteDisk("disk-1"));
      yield* until(() => device()?.attachState === "DETACHED", leave);
    }
}

/** Creates a disk on the host, and uses it there for a while. */
function* haveATenant(world: World, hostId: string): Plan {
  const { store, requests, random } = world;
  yield* putInUse(world, hostId, hostId);
  yield* wait(random.below(8));
  yield* until(
    () => store.disk("disk-1")?.publication === undefined,
    () => requests.unpublishDisk("disk-1", ""),
  );
}

function* putInUse({ store, requests }: World, hostId: string, holder: string, rule?: OnHostSilence): Plan {
  const disk = () => store.disk("disk-1");
  yield* until(
    () => disk() !== undefined,
    () => requests.createDisk("disk-1", 2 * BLOCK_BYTES, hostId),
  );
  yield* until(
    () => disk()?.publication?.state === "PUBLISHED",
    () => requests.publishDisk("disk-1", holder, rule),
    rule === undefined ? Number.POSITIVE_INFINITY : 40,
  );
}

/** Uses a disk of one host on another host, without further requests. */
export function* serveFromAfar(world: World): Plan {
  const { store, hosts } = world;
  const [hostId = "", holder = ""] = hosts;
  yield* until(
    () => store.device(`${hostId}-a`)?.attachState === "ATTACHED",
    () => takeIn(world, hostId),
  );
  yield* putInUse(world, hostId, holder);
  for (;;) yield;
}

/**
 * Makes most hosts fail at once. Operators then fence them, by call or by the silence rule, use the disk elsewhere, and
 * take the hosts back.
 */
export function* fenceTheDead(world: World): Plan {
  const { requests, store, network, hosts, random } = world;
  const publication = () => store.disk("disk-1")?.publication;
  for (;;) {
    const owner = random.pick(hosts);
    const [holder = "", next = ""] = random.chance(0.5) ? hosts.filter((host) => host !== owner) : hosts;
    for (const hostId of hosts)
      yield* until(
        () => store.device(`${hostId}-a`)?.attachState === "ATTACHED",
        () => takeIn(world, hostId),
        20,
      );
    const rule = random.chance(0.5) ? OnHostSilence.FENCE : OnHostSilence.KEEP;
    yield* until(
      () => store.disk("disk-1") !== undefined,
      () => requests.createDisk("disk-1", 2 * BLOCK_BYTES, owner),
      20,
    );
    const owning = world.agentOf(owner);
    if (random.chance(0.4) && owning !== undefined) {
      // Restarts the agent, so that the disk's devices are still being attached and cannot be asked for their session.
      world.endAgent(owning, false);
      const disk = store.disk("disk-1");
      const isUp = () => disk && countingDevices(disk).every((id) => store.device(id)?.attachState === "ATTACHED");
      yield* wait(30, () => isUp() === false);
    }
    yield* putInUse(world, owner, holder, rule);
    yield* wait(random.below(8));
    const dying = hosts.filter((host) => host === holder || random.chance(0.5));
    for (const host of dying) {
      const node = world.agentOf(host);
      if (random.chance(0.3) && node !== undefined) world.endAgent(node, random.chance(0.5));
      // Cuts the host off from the registries only, so that it continues and exchanges writes with other hosts.
      else for (const place of REGISTRY_PLACES) network.block(host, place);
    }
    yield* wait(random.below(30));
    if (random.chance(0.4)) requests.setHostState(dying, HostState.DEAD, random.chance(0.5));
    yield* wait(random.below(6));
    if (random.chance(0.6)) requests.fenceHost(holder);
    if (random.chance(0.3)) requests.createDisk("disk-2", BLOCK_BYTES, random.pick(hosts));
    yield* until(
      () => publication()?.state === "PUBLISHED" && publication()?.hostId === next,
      () => requests.publishDisk("disk-1", next, rule),
      random.below(40),
    );
    for (const host of dying) for (const place of REGISTRY_PLACES) network.unblock(host, place);
    yield* wait(random.below(40));
    requests.setHostState(dying, HostState.ONLINE);
    yield* wait(random.below(20));
    for (const diskId of ["disk-1", "disk-2"])
      yield* until(
        () => store.disk(diskId) === undefined,
        () => (store.disk(diskId)?.publication ? requests.unpublishDisk(diskId, "") : requests.deleteDisk(diskId)),
        30,
      );
  }
}

/** Purges a device of a silent host whose agent continues. */
export function* purgeWhileSilent({ requests, store, network, hosts, random }: World): Plan {
  for (;;) {
    const hostId = random.pick(hosts);
    const named = { hostId, deviceId: `${hostId}-${random.pick(["a", "b"])}`, acceptUnidentified: true };
    yield* until(
      () => store.device(named.deviceId)?.attachState === "ATTACHED",
      () => requests.cms("addDevice", named),
    );
    for (const place of REGISTRY_PLACES) network.block(hostId, place);
    yield* until(
      () => store.host(hostId)?.state === "UNAVAILABLE",
      () => {},
    );
    yield* until(
      () => store.device(named.deviceId) === undefined,
      () => requests.cms("purgeDevice", { ...named, force: true }),
    );
    for (const place of REGISTRY_PLACES) network.unblock(hostId, place);
    yield* wait(random.below(40));
  }
}

/** Makes the agent of a used host detect changes of its devices, or restart, again and again. */
export function* registerAgainAndAgain(world: World): Plan {
  const { random, hosts, requests, store } = world;
  const hostId = random.pick(hosts);
  for (;;) {
    yield* until(
      () => store.device(`${hostId}-b`)?.attachState === "ATTACHED",
      () => requests.cms("addHost", { hostId }),
      20,
    );
    const agent = world.agentOf(hostId);
    if (agent !== undefined && random.chance(0.4)) world.endAgent(agent, false);
    else agent?.context?.registrationDue.declare();
    yield* wait(random.below(60));
  }
}

/** Rewinds the registry to before a disk existed, and requests space for another disk. */
export function* tenantsAcrossARewind(world: World): Plan {
  const { requests, random, rewinds, hosts } = world;
  for (let tenant = 0; ; tenant++) {
    const diskId = DISK_IDS[tenant % DISK_IDS.length] ?? "";
    const [hostId, holder] = [random.pick(hosts), random.pick(hosts)];
    const free = () => [...world.store.devices()].filter((device) => device.hostId === hostId && isIdle(device));
    yield* until(
      () => free().length > 0,
      () => takeIn(world, hostId),
      20,
    );
    rewinds.backUp();
    const sizeBytes = () => free().reduce((sum, device) => sum + freeBytesOf(device), 0) || BLOCK_BYTES;
    yield* until(
      () => world.store.disk(diskId) !== undefined,
      () => requests.createDisk(diskId, sizeBytes(), hostId),
      20,
    );
    yield* until(
      () => world.store.disk(diskId)?.publication?.state === "PUBLISHED",
      () => requests.publishDisk(diskId, holder),
      20,
    );
    yield* wait(random.below(8));
    if (random.chance(0.3)) {
      requests.unpublishDisk(diskId, "");
      yield* wait(random.below(4));
      requests.deleteDisk(diskId);
      yield* wait(random.below(4));
    }
    rewinds.goBack();
  }
}

/** Uses disks of one block each. Restarts their machine with changed drives or config. */
export function* useWhileDrivesMove(world: World): Plan {
  const { requests, store, random, hosts } = world;
  const [hostId = ""] = hosts;
  for (;;) {
    const isIn = () => [...store.devices()].every(({ attachState }) => attachState === "ATTACHED");
    yield* until(isIn, () => takeIn(world, hostId), 20);
    for (const diskId of DISK_IDS) {
      yield* until(
        () => store.disk(diskId) !== undefined,
        () => requests.createDisk(diskId, BLOCK_BYTES, hostId),
        10,
      );
      yield* until(
        () => store.disk(diskId)?.publication?.state === "PUBLISHED",
        () => requests.publishDisk(diskId, hostId),
        10,
      );
    }
    yield* wait(20 + random.below(20));
    const node = world.agentOf(hostId);
    if (!node?.process.alive) continue;
    if (random.chance(0.3)) yield* cutOff(world, node);
    else {
      const powerLoss = random.chance(0.5);
      world.endAgent(node, powerLoss);
      if (powerLoss && random.chance(0.6)) node.machine.exchange("/dev/a", "/dev/b");
    }
    yield* wait(20 + random.below(40));
  }
}

/** Truncates files that are in use, makes their agent check them, and fills the missing part with zeros. */
function* cutOff(world: World, { context, machine }: AgentRun): Plan {
  const path = world.random.pick(["/dev/a", "/dev/b"]);
  world.trace(`${machine.host}: what is at ${path} is cut off`);
  machine.cutOff(path);
  void context?.checks.rescan.run();
  yield* wait(20);
  const drive = machine.drives.get(path);
  while (drive !== undefined && drive.blocks.length < 2 * world.smallestBlocks) drive.blocks.push(0);
}

import { countingDevices, type Disk, holds, holdsAnyDisk, isDirty, spacesOf } from "@diskmesh/disk-registry/simulation";
import { isIdle } from "./operator.js";
import type { AgentRun, World } from "./parts.js";
import { unknownEntries } from "./watch-tables.js";

type StoredDevice = NonNullable<ReturnType<World["store"]["device"]>>;

/** Returns everything that has not converged after the last fault; empty when all has. */
export function whatIsNotSettled(world: World): readonly string[] {
  const leader = world.leader();
  if (leader?.context === undefined) return ["no registry leads"];
  const unsettled: string[] = [];
  for (const host of world.hosts) {
    const node = world.agentOf(host);
    if (node?.context === undefined || !node.process.alive) unsettled.push(`the agent of ${host} does not run`);
    else if (world.store.host(host)?.state !== "ONLINE") unsettled.push(`host ${host} is not ONLINE`);
    else if (world.store.host(host)?.bootId !== node.context.bootId) unsettled.push(`host ${host} has not registered`);
    else {
      for (const place of node.devices) unsettled.push(...deviceTrouble(world, node, place));
      unsettled.push(...exportTrouble(world, node));
    }
  }
  for (const device of world.store.devices())
    if (isKeptWithoutCause(world, device))
      unsettled.push(`${device.deviceId} is to be removed, and nothing holds it back`);
  for (const disk of world.store.disks())
    unsettled.push(...diskTrouble(world, disk.diskId), ...moveTrouble(world, disk));
  return unsettled;
}

function deviceTrouble(world: World, node: AgentRun, place: AgentRun["devices"][number]): readonly string[] {
  const { deviceId, path } = place;
  const device = world.store.device(deviceId);
  const held = node.context?.devices.find(deviceId as never);
  if (held === undefined || node.context === undefined) return [`${deviceId} is not configured`];
  const order = node.context.ledger.memory.devices.get(deviceId as never)?.order;
  if (device === undefined)
    return held.released && !held.holds ? [] : [`${deviceId} is unknown to the registry, and its agent holds it`];
  // Devices held by an unknown disk stay as they are.
  if (device.unknownSession !== undefined) return [];
  const trouble: string[] = [];
  if (order?.deviceGeneration !== device.generation && !world.lives.isDecided(deviceId))
    trouble.push(`${deviceId} has generation ${device.generation}, and its agent obeyed ${order?.deviceGeneration}`);
  const replaced = device.replacement !== undefined;
  // In other scenarios a drive may be in a place where no device can follow it.
  const isLabelled = world.scenario?.name === "drives change places" && device.label !== undefined;
  if (isLabelled && world.bytes.isOwnDrive(device.hostId, deviceId) === false)
    trouble.push(`${deviceId} is at ${path}, and its drive is not`);
  switch (device.attachState) {
    case "ATTACHED":
      if (!held.attached || !node.machine.isOpen(path))
        trouble.push(`${deviceId} is ATTACHED, and its agent does not hold it`);
      if (world.rewinds.epoch === 0 && !node.machine.isTouched) trouble.push(...tableTrouble(node, place, device));
      if (isDirty(device) && device.health !== "ERROR" && !device.keepData)
        trouble.push(`${deviceId} is dirty: ${device.lastError}`);
      break;
    case "ATTACHING":
      // Only a device with a real fault may stay unusable, and then it must report the fault.
      if (!isBroken(node, deviceId, replaced) && !isHeldElsewhere(world, node, path, device) && !isOfOther(device))
        trouble.push(`${deviceId} is ATTACHING: ${device.lastError}`);
      break;
    case "CLOSING":
      trouble.push(`${deviceId} is CLOSING: ${device.lastError}`);
      break;
    default:
      if (!device.detachConfirmed)
        trouble.push(`${deviceId} is ${device.attachState}, and nobody confirmed it: ${device.lastError}`);
      if (held.holds || !held.released) trouble.push(`${deviceId} is ${device.attachState}, and its agent holds it`);
  }
  return trouble;
}

/** Returns the runs in the device's table that no disk has, and that are not to be erased. */
function tableTrouble(
  node: AgentRun,
  { path, firstBlock }: AgentRun["devices"][number],
  device: StoredDevice,
): readonly string[] {
  const drive = node.machine.openDrive(path);
  if (drive === undefined || device.runs.some(({ count }) => count === undefined)) return [];
  return unknownEntries({ drive, firstBlock }, device).map((run) => `the table has ${run}, which the registry has not`);
}

/** Returns whether the device is to be removed and still in operation, although nothing of it or its host is in use. */
function isKeptWithoutCause({ store }: World, { hostId, attachState, removalRequested }: StoredDevice): boolean {
  if (!removalRequested || attachState !== "ATTACHED") return false;
  const isBlocking = (device: StoredDevice): boolean => {
    const isIn = device.attachState === "ATTACHED" || device.attachState === "ATTACHING";
    const isKept = device.unknownSession !== undefined || holdsAnyDisk(device);
    return isKept || (isIn && isDirty(device) && !device.keepData);
  };
  if ([...store.devices()].some((device) => device.hostId === hostId && isBlocking(device))) return false;
  return ![...store.disks()].some(({ publication }) => publication?.hostId === hostId);
}

/** Returns whether the hardware differs from the registry's record. */
function isBroken(node: AgentRun, deviceId: string, replaced: boolean): boolean {
  const path = node.devices.find((place) => place.deviceId === deviceId)?.path ?? "";
  const open = node.machine.openDrive(path);
  return replaced || (open !== undefined && open !== node.machine.drives.get(path));
}

/**
 * Returns whether the drive in the device's place was labelled as another device elsewhere, and the device reports that. Its
 * agent remembers an erase of the whole drive, so the registry takes the label for a user's bytes; an operator must decide.
 */
function isOfOther({ lastError }: StoredDevice): boolean {
  return lastError.includes("carries another label than it did");
}

/**
 * Returns whether another agent holds the device's file and the device reports that. The registry cannot know that both
 * devices are one file, because the agent that never opened it cannot tell; an operator must decide.
 */
function isHeldElsewhere(world: World, node: AgentRun, path: string, device: StoredDevice): boolean {
  if (!device.lastError.includes("is locked by agent")) return false;
  const drive = node.machine.drives.get(path);
  for (const other of world.agents())
    for (const place of other.devices) {
      if (other === node || other.machine.drives.get(place.path) !== drive) continue;
      const known = world.store.device(place.deviceId);
      const isKnownToShare = known?.fileIdentity !== undefined && known.fileIdentity === device.fileIdentity;
      if (other.context?.devices.find(place.deviceId as never)?.attached) return !isKnownToShare;
    }
  return false;
}

/** Returns exports on hosts where they are not wanted. Exports that a rewound registry has forgotten are allowed. */
function exportTrouble(world: World, node: AgentRun): readonly string[] {
  const { host } = node.machine;
  if (world.rewinds.epoch > 0) return [];
  const isWanted = (diskId: string) => world.store.disk(diskId)?.publication?.hostId === host;
  const served = node.context?.exports.list() ?? [];
  return served.filter(({ diskId }) => !isWanted(diskId)).map(({ diskId }) => `${host} serves ${diskId}, unwanted`);
}

function diskTrouble(world: World, diskId: string): readonly string[] {
  const disk = world.store.disk(diskId);
  const publication = disk?.publication;
  if (disk === undefined || publication === undefined) return [];
  const usable = countingDevices(disk).every((deviceId) => {
    const device = world.store.device(deviceId);
    return holds(device, disk.diskId) && device?.attachState === "ATTACHED" && device.unknownSession === undefined;
  });
  if (publication.state !== "PUBLISHED") {
    const target = world.store.host(publication.hostId);
    // A disk that lost a device or its host cannot be published; it must report that, and waits for an operator.
    if (publication.state === "PUBLISHING" && (!usable || target === undefined)) return [];
    if (countingDevices(disk).some((deviceId) => world.store.device(deviceId)?.unknownSession !== undefined)) return [];
    return [`disk ${diskId} is ${publication.state}: ${publication.lastError}`];
  }
  const node = world.agentOf(publication.hostId);
  const exported = node?.context?.exports.list().find((entry) => entry.diskId === diskId);
  if (usable && exported?.sessionNumber !== publication.sessionNumber)
    return [
      `disk ${diskId} is PUBLISHED in session ${publication.sessionNumber}, and its host serves ${exported?.sessionNumber}`,
    ];
  return [];
}

/** Returns the moves that go on, or wait although there is room. */
function moveTrouble(world: World, disk: Disk): readonly string[] {
  const { store } = world;
  const { diskId, parts } = disk;
  const isUsable = (deviceId: string): boolean => {
    const device = store.device(deviceId);
    const isThere = holds(device, diskId) && device?.attachState === "ATTACHED" && device.health !== "ERROR";
    return isThere && device.unknownSession === undefined;
  };
  const isPurged = (deviceId: string): boolean => !holds(store.device(deviceId), diskId);
  // A part whose source is faulty keeps its target until the source is well, or purged.
  const isOver = ({ copies }: Disk["parts"][number]): boolean =>
    copies.some(({ state }) => state === "COPYING") &&
    copies.some(({ state, deviceId }) => state === "COUNTS" && (isPurged(deviceId) || isUsable(deviceId)));
  if (countingDevices(disk).some(isPurged) && parts.some(isOver))
    return [`disk ${diskId} has lost bytes, and keeps the target of a move`];
  // A disk without one of its devices cannot be served, and its moves wait for an operator.
  if (!countingDevices(disk).every(isUsable)) return [];
  // A device that was purged and came back is not chosen: its former bytes are lost.
  const named = new Set(parts.flatMap(({ copies }) => copies.map(({ deviceId }) => deviceId)));
  return parts.flatMap(({ copies, move, sizeBytes }) => {
    const source = store.device(copies.find(({ state }) => state === "COUNTS")?.deviceId ?? "");
    if (source === undefined) return [];
    if (copies.length > 1) return [`disk ${diskId} still moves from ${source.deviceId}: ${move?.lastError}`];
    const room = [...store.devices()].find(
      (device) =>
        isIdle(device) &&
        !named.has(device.deviceId) &&
        device.attachState === "ATTACHED" &&
        device.unknownSession === undefined &&
        spacesOf(device).some((space) => space.sizeBytes >= (sizeBytes ?? source.sizeBytes)) &&
        !device.removalRequested &&
        !store.host(device.hostId)?.removalRequested &&
        (move?.toHostId ?? device.hostId) === device.hostId &&
        !(move?.elsewhere && device.hostId === source.hostId),
    );
    if (move === undefined || room === undefined) return [];
    return [`disk ${diskId} is to move from ${source.deviceId}, and there is room on ${room.deviceId}`];
  });
}

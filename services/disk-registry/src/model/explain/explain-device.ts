import type { Cure, DeviceId } from "@diskmesh/domain";
import { disksOnItText, disksText, named } from "../devices/action-result.js";
import { mustBeErased } from "../devices/removal-erase.js";
import { isLabelLost } from "../devices/replaced.js";
import { sharersIn, whyRefused } from "../devices/same-bytes.js";
import { whyNotAsked } from "../disks/placement.js";
import { type Removal, removalOf, usesOf } from "../hosts/removal-step.js";
import { countingCopy } from "../store/layout.js";
import { disksOn, holdsAnyDisk, isDirty, runToErase } from "../store/runs.js";
import { awaitsOrder, type Device, type Disk, type Host, isHeld, type RegistryTables } from "../store/schema.js";
import { bytesOf } from "../store/slices.js";
import type { Cause, Known, Subject } from "./cause.js";
import { labelCause, replacedCause } from "./explain-label.js";

export function deviceCauses(tables: RegistryTables, deviceId: DeviceId, known: Known): Cause[] {
  const device = tables.devices.get(deviceId);
  if (device === undefined) return [];
  const add = addCommand(tables.hosts.get(device.hostId), device);
  const label = labelCause(tables, device);
  const found = [
    label,
    // The registry does not take in a drive as new that may be another device.
    label !== undefined && device.foundLabel !== undefined ? undefined : notAdded(tables, device, known),
    order(tables, device, known),
    // The loss of the label says what the health says.
    label?.reason === "LABEL_LOST" && device.keptHealth === undefined ? undefined : health(device, add),
    erase(device, known),
    unknownDisk(device),
    notReported(tables, device, add),
    removal(tables, device, add),
    hostAway(tables, device, known),
  ];
  return found.flatMap((cause) => (cause === undefined ? [] : [{ subject: subjectOf(device), ...cause }]));
}

/** Returns the command that keeps or takes in the device; empty while the registry refuses it. */
function addCommand(host: Host | undefined, { hostId, deviceId }: Device): string {
  if (host?.state === "DEAD") return "";
  return host?.removalRequested ? `diskmesh add-host ${hostId}` : `diskmesh add-device ${hostId} ${deviceId}`;
}

type Found = Omit<Cause, "subject"> | undefined;

const subjectOf = ({ deviceId }: Pick<Device, "deviceId">): Subject => ({ kind: "DEVICE", name: deviceId });

const hostOf = ({ hostId }: Pick<Device, "hostId">): Subject => ({ kind: "HOST", name: hostId });

function notAdded(tables: RegistryTables, device: Device, { serialNumbersOfMany, findSharers }: Known): Found {
  const { deviceId, hostId, attachState, stateChangedAtMs: sinceMs } = device;
  if (attachState === "ATTACHING" || attachState === "ATTACHED") return undefined;
  const refused = whyRefused(findSharers ?? sharersIn(tables, serialNumbersOfMany), device);
  if (refused !== undefined)
    return {
      reason: "SAME_BYTES",
      message: `device ${deviceId} cannot be used: ${refused}`,
      sinceMs,
      cures: [["remove the other device (RemoveDevice), or remove this device from its agent's config", ""]],
    };
  if (attachState !== "UNKNOWN") return undefined;
  const add: Cure = ["add the device with its host", `diskmesh add-host ${hostId}`];
  return {
    reason: "NOT_ADDED",
    message: `device ${deviceId} has not been added`,
    sinceMs,
    // AddHost is refused for a DEAD host.
    cures: tables.hosts.get(hostId)?.state === "DEAD" ? [] : [add],
    isRoutine: true,
  };
}

/** Names the host that does not tell how its device is. The trouble is the host's. */
function hostAway(tables: RegistryTables, device: Device, { whySuspected }: Known): Found {
  const { deviceId, hostId, attachState, removalRequested } = device;
  const host = tables.hosts.get(hostId);
  const why = host === undefined ? undefined : whyNotAsked(host, whySuspected);
  if (why === undefined || removalRequested || attachState !== "ATTACHED") return undefined;
  const message = `the state of device ${deviceId} is not known: ${why}`;
  return { reason: "HOST_IN_TROUBLE", message, becauseOf: [hostOf(device)], isRoutine: true };
}

/** Explains an attach or detach order that the agent has not confirmed. */
function order(tables: RegistryTables, device: Device, { progressOf, whySuspected }: Known): Found {
  if (!awaitsOrder(device)) return undefined;
  const { deviceId, hostId, attachState, generation, attempts, lastError, stateChangedAtMs } = device;
  const host = tables.hosts.get(hostId);
  const notAsked = host === undefined ? `host ${hostId} is not known` : whyNotAsked(host, whySuspected);
  const pending = device.pending ?? progressOf(device).pending;
  const what = attachState === "ATTACHING" ? "open" : "close";
  const why = notAsked ?? pending?.message ?? lastError;
  const tries = attempts === 0 ? "" : ` after ${attempts} failed tries`;
  const isHung = pending !== undefined && pending.inFlightOperations > 0;
  return {
    reason: "ORDER_PENDING",
    message: `the agent of host ${hostId} has not yet confirmed the order to ${what} device ${deviceId} (generation ${generation})${tries}${why === "" ? "" : `: ${why}`}`,
    sinceMs: pending?.sinceMs ?? stateChangedAtMs,
    nextTryAtMs: progressOf(device).nextAttemptAtMs,
    // The agent rightly refuses the drive, and the cause of that has the cure.
    cures: device.replacement !== undefined || isLabelLost(device) ? [] : orderCures(device, host, isHung),
    becauseOf: [hostOf(device)],
    isRoutine: attempts === 0 && why === "",
  };
}

function orderCures({ lastError }: Device, host: Host | undefined, isHung: boolean): Cure[] {
  if (isHung) return [["end the hanging I/O (pull the drive, or restart its target), or restart the host", ""]];
  if (host === undefined || lastError === "") return [];
  // The client puts the method and the address before the failure of a call; anything else is the agent's own answer.
  if (!lastError.includes(` at ${host.address}: `))
    return [[`do on host ${host.hostId} what the message says; the order is repeated by itself`, ""]];
  const far = `if no process answers at ${host.address}: repair the network to it, or correct advertisedAddress in the agent's config`;
  return [[far, ""]];
}

/** Text of an agent that cannot open a device's file. */
const UNUSABLE_FILE = /^device file .* cannot be used: /;
/** Text of an agent in whose device's place another file is, or one that lost bytes. */
const OTHER_FILE = /is now another file|has another size|differs from the registered device|is too short for device/;
/** Text of an agent that finds its device's label overwritten. */
const LOST_LABEL = /^device .* has lost its label: /;

function health(device: Device, add: string): Found {
  const { deviceId, hostId, health: value, healthMessage, keptHealth, grownToBytes } = device;
  if (value === "ONLINE") return undefined;
  const isKept = (keptHealth?.hardwareError ?? keptHealth?.said) !== undefined;
  const trust: Cure = ["once the device is repaired, trust it again", `diskmesh set-device-state online ${deviceId}`];
  // AddDevice is refused while a disk is on the device.
  const grow: Cure = holdsAnyDisk(device)
    ? [`no action needed for ${disksText(device)}; once the device has no disk, use the added space (AddDevice)`, ""]
    : ["use the added space", add];
  const mend: Cure = UNUSABLE_FILE.test(healthMessage)
    ? [`correct the device file on host ${hostId}, as the message says; its agent opens it by itself then`, ""]
    : healthMessage.includes("ENOSPC")
      ? [
          `free space on the file system that holds the device file on host ${hostId}: the device then recovers by itself`,
          "",
        ]
      : OTHER_FILE.test(healthMessage)
        ? [
            `put the former file or drive back in its place on host ${hostId}, with its former size: the device then works again by itself`,
            "",
          ]
        : [`repair the drive on host ${hostId}; the device recovers by itself once the drive answers normally`, ""];
  // A drive that is another one, or gone, has a cause with its cures of its own.
  const isElse = device.replacement !== undefined || device.missing !== undefined || isLabelLost(device);
  // The registry is told what is in the label's place a moment after the health.
  const mends = isElse || LOST_LABEL.test(healthMessage) ? [] : [mend];
  return {
    reason: "UNHEALTHY",
    message: `device ${deviceId} of host ${hostId} has health ${value}: ${healthMessage}`,
    sinceMs: unhealthySinceMs(device),
    cures: isKept ? [trust] : grownToBytes === undefined ? mends : [grow],
  };
}

export function unhealthySinceMs({ keptHealth, unwellSinceMs }: Device): number | undefined {
  return keptHealth?.hardwareError?.atMs ?? keptHealth?.said?.atMs ?? unwellSinceMs;
}

function erase(device: Device, { progressOf }: Known): Found {
  const { deviceId, attachState, lastError, health: value, keepData } = device;
  // Nothing erases a device whose data may be somebody's.
  if (device.unknownSession !== undefined) return undefined;
  if (!isDirty(device) || attachState === "UNKNOWN" || attachState === "DETACHED" || keepData) return undefined;
  const { erasedBytes, pending, nextAttemptAtMs } = progressOf(device);
  const run = runToErase(device);
  const sizeBytes = run === undefined ? 0 : bytesOf(device, run).sizeBytes;
  const done = sizeBytes > 0 ? Math.floor((100 * erasedBytes) / sizeBytes) : 0;
  const notNow = attachState === "ATTACHED" ? undefined : "the erase waits until its agent has opened the device";
  const why =
    notNow ?? (value === "ERROR" ? "the erase waits while the device is in ERROR" : (pending?.message ?? lastError));
  return {
    reason: "TO_BE_ERASED",
    message: `device ${deviceId} has data of a former disk, and is erased before its next use (${done} % so far)${why === "" ? "" : `: ${why}`}`,
    sinceMs: pending?.sinceMs,
    nextTryAtMs: nextAttemptAtMs,
    becauseOf: [hostOf(device)],
    isRoutine: lastError === "" || notNow !== undefined,
  };
}

/** Returns the decisions that lose no data first. Each command only shows its effect until --dry-run is left out. */
function unknownDiskCures(device: Device, what: string): Cure[] {
  const { deviceId } = device;
  const agent = `diskmesh decide-unknown agent ${deviceId} --dry-run`;
  const registry = `diskmesh decide-unknown registry ${deviceId} --dry-run`;
  if (holdsAnyDisk(device))
    return [
      [`if ${disksText(device)} has its data there, decide for the registry`, registry],
      [`if ${what} has, decide for the agent: ${disksText(device)} loses the device`, agent],
    ];
  return [
    [`if ${what} is needed, first copy it on host ${device.hostId}, which still serves it`, ""],
    [`if ${what} is needed, decide for the agent: the disk gets the device if that is certain`, agent],
    [`if nobody needs ${what}, decide for the registry: the device is erased`, registry],
  ];
}

function unknownDisk(device: Device): Found {
  const { deviceId, unknownSession } = device;
  if (unknownSession === undefined) return undefined;
  const { diskId, sessionNumber } = unknownSession;
  const what = diskId === "" ? "an erase" : `disk ${diskId}`;
  return {
    reason: "HELD_BY_UNKNOWN_DISK",
    message: `the agent remembers session ${sessionNumber} of device ${deviceId} for ${what}, which this registry does not know, so the owner of the device's data is not known`,
    cures: unknownDiskCures(device, what),
  };
}

function notReported(tables: RegistryTables, device: Device, add: string): Found {
  const { deviceId, hostId, missing, replacement } = device;
  if (replacement !== undefined) return replacedCause(tables, { ...device, replacement }, add);
  if (missing === undefined) return undefined;
  // A removal erases a dirty device first, and nothing can erase a device that is gone.
  const out: Cure = isDirty(device)
    ? ["put the device back, or remove it with its data", `diskmesh remove-device ${hostId} ${deviceId} --keep-data`]
    : ["put the device back, or remove it", `diskmesh remove-device ${hostId} ${deviceId}`];
  return {
    reason: "NOT_REPORTED",
    message: `the agent of host ${hostId} does not find device ${deviceId} any more`,
    cures: [holdsAnyDisk(device) ? [`put the device back: ${disksOnItText(device)}`, ""] : out],
  };
}

function removal(tables: RegistryTables, device: Device, add: string): Found {
  const { deviceId, hostId, removalRequested, removalRequestedAtMs: sinceMs } = device;
  if (!removalRequested) return undefined;
  const diskIds = disksOn([device]);
  if (diskIds.length === 0) return heldBack(tables, device, add);
  const host = tables.hosts.get(hostId);
  const staying = diskIds.filter((diskId) => !isMoving(tables.disks.get(diskId), deviceId));
  const isStaying = staying.length > 0;
  const cancelledMoves = diskIds.length === 1 ? ", whose move was" : `; the moves of ${named(staying)} were`;
  const cancelled = isStaying ? `${cancelledMoves} cancelled (CancelMove)` : "";
  const move = host?.removalRequested
    ? `diskmesh remove-host ${hostId}`
    : `diskmesh remove-device ${hostId} ${deviceId}`;
  const cures: readonly Cure[] = host?.lossNoted
    ? [["start the host again, or accept the loss: delete the disk, or purge the device with force (PurgeDevice)", ""]]
    : isStaying
      ? [
          ["move the disk", move],
          ["keep the device", add],
        ]
      : [["wait until the disk has moved, or keep the device", add]];
  return {
    reason: "REMOVAL_WAITS",
    message: `device ${deviceId} is being removed, and ${disksText(device)} ${diskIds.length === 1 ? "lies" : "lie"} on it${cancelled}`,
    sinceMs,
    cures,
    becauseOf: diskIds.map((name) => ({ kind: "DISK", name })),
  };
}

/** Returns whether the disk leaves the device. */
function isMoving(disk: Disk | undefined, deviceId: DeviceId): boolean {
  const part = disk?.parts.find(({ copies }) => copies.some((copy) => copy.deviceId === deviceId));
  return part === undefined || part.move !== undefined || countingCopy(part).deviceId !== deviceId;
}

/** Explains what keeps a device without a disk in operation that is to be removed. */
function heldBack(tables: RegistryTables, device: Device, add: string): Found {
  if (!isHeld(device)) return undefined;
  const { deviceId, hostId, path, removalRequestedAtMs: sinceMs } = device;
  const leaving = removalOf(tables, device);
  const { isOfHost, devices } = leaving;
  const company = isOfHost ? ` with host ${hostId}` : devices.length > 1 ? ` with the other devices on ${path}` : "";
  const waitsFor = subjectsInTheWay(tables, leaving);
  const names = named(
    waitsFor.map(({ kind, name }) => (kind === "VM" ? `VM ${name}` : `${kind.toLowerCase()} ${name}`)),
  );
  return {
    reason: "REMOVAL_WAITS",
    message: `device ${deviceId} is being removed${company}, and ${names === "" ? "is closed next" : `waits for ${names}`}`,
    sinceMs,
    cures: [["wait until the removal ends, or keep the device", add]],
    becauseOf: isOfHost ? [hostOf(device)] : waitsFor.filter(({ name }) => name !== deviceId),
    ...(isOfHost && { isEcho: true }),
    isRoutine: true,
  };
}

/** Returns what must end, or be erased, before the removal closes its devices. */
function subjectsInTheWay(tables: RegistryTables, leaving: Removal): readonly Subject[] {
  const uses = usesOf(tables, leaving);
  if (uses === undefined) return leaving.devices.filter(mustBeErased).map(subjectOf);
  const { heldDiskIds, servedDiskIds, vmCid, unknown } = uses;
  return [
    ...[...heldDiskIds, ...servedDiskIds].map((name): Subject => ({ kind: "DISK", name })),
    ...unknown.map(subjectOf),
    ...(vmCid === undefined ? [] : [{ kind: "VM", name: vmCid } as const]),
  ];
}

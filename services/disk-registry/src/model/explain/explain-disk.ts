import { countText, type DiskId, type HostId, ioLimitsText, timeText } from "@diskmesh/domain";
import { named } from "../devices/action-result.js";
import { whyElsewhere } from "../devices/unknown-disks.js";
import { type DeletedDisk, isDeleted } from "../disks/deleted-disks.js";
import { deleteNow } from "../disks/disk-text.js";
import { deviceHealth } from "../disks/disks.js";
import { moveText } from "../disks/move-text.js";
import { ioStands, type OpenIo } from "../disks/open-io.js";
import { type WhySuspected, whyNotAsked } from "../disks/placement.js";
import { isFence } from "../disks/publications.js";
import { countingDevices } from "../store/layout.js";
import {
  type Device,
  type Disk,
  type Fence,
  isChangePending,
  type PublicationProblem,
  type RegistryTables,
} from "../store/schema.js";
import type { Cause, Known, Subject } from "./cause.js";
import { unhealthySinceMs } from "./explain-device.js";
import { silentSinceMs } from "./explain-host.js";

export function diskCauses(tables: RegistryTables, diskId: DiskId, known: Known): Cause[] {
  const disk = tables.disks.get(diskId);
  if (disk === undefined) return forgotten(tables, diskId);
  const found = isDeleted(disk)
    ? [deleted(disk), ...moves(tables, disk, known).map((move) => ({ ...move, isRoutine: true }))]
    : [
        ...publication(disk),
        ...server(tables, disk, known),
        ...devices(tables, disk, known),
        ...moves(tables, disk, known),
      ];
  return found.map((cause) => ({
    subject: { kind: "DISK", name: diskId },
    ...cause,
  }));
}

type Found = Omit<Cause, "subject">;

/** Explains a deleted disk. It is in nobody's way, so nothing of it is trouble. */
function deleted({ diskId, deleted: { by, atMs, untilMs } }: DeletedDisk): Found {
  return {
    reason: "DELETED",
    message: `disk ${diskId} was deleted by ${by}, and is kept until ${timeText(untilMs)}, or until a new disk needs its bytes`,
    sinceMs: atMs,
    cures: [
      ["bring it back", `diskmesh undelete ${diskId}`],
      ["erase it now", deleteNow(diskId)],
    ],
    becauseOf: [],
    isRoutine: true,
  };
}

/** Explains a disk that this registry does not know and agents do. */
function forgotten(tables: RegistryTables, diskId: DiskId): Cause[] {
  const devices = [...tables.devices.by("unknownByDisk", diskId)];
  if (devices.length === 0) return [];
  return [
    {
      subject: { kind: "DISK", name: diskId },
      reason: "FORGOTTEN",
      message: `this registry does not know disk ${diskId}, and agents remember it on ${named(devices.map(({ deviceId }) => deviceId))}: the registry was restored from a backup that is older than the disk`,
      cures: [["restore a later backup of the registry if there is one; else decide about each device", ""]],
      becauseOf: devices.map(({ deviceId }) => ({ kind: "DEVICE", name: deviceId })),
    },
  ];
}

function publication(disk: Disk): Found[] {
  const { diskId, publication: current, fence } = disk;
  if (current === undefined) return fence === undefined ? [] : [fenced(diskId, fence)];
  if (current.state === "PUBLISHED" && !isChangePending(current)) return [];
  const { hostId, attempts, lastError, pending = [], sessionNumber } = current;
  const waits = pending.map(({ deviceId, message }) => `device ${deviceId}: ${message}`);
  const reasons = [...waits, lastError].filter(Boolean).join("; ");
  const tries = attempts === 0 ? "" : `, after ${attempts} tries`;
  const rest = `${tries}${reasons === "" ? "" : `: ${reasons}`}`;
  const deviceSubjects = countingDevices(disk).map((deviceId): Subject => ({ kind: "DEVICE", name: deviceId }));
  const host: Subject = { kind: "HOST", name: hostId };
  const sinceMs = pending.reduce<number | undefined>(
    (oldest, { sinceMs: each }) => Math.min(oldest ?? each, each),
    undefined,
  );
  if (current.state === "PUBLISHING") {
    const message = `host ${hostId} does not serve disk ${diskId} yet, in session ${sessionNumber}${rest}`;
    const becauseOf = [host, ...deviceSubjects];
    return [{ reason: "PUBLICATION_PENDING", message, sinceMs, becauseOf, isRoutine: rest === "" }];
  }
  if (current.state === "PUBLISHED") {
    const message = `host ${hostId} does not serve disk ${diskId} with its present limits and size yet${rest}`;
    return [
      { reason: "CHANGE_PENDING", message, sinceMs, becauseOf: [host, ...deviceSubjects], isRoutine: rest === "" },
    ];
  }
  const word =
    isFence(disk) && fence !== undefined ? ` (fenced by ${fence.by}${fence.reason && `: ${fence.reason}`})` : "";
  const message = `disk ${diskId} is being unpublished from host ${hostId}${word}, but not all of its devices have confirmed${rest}`;
  return [
    {
      reason: "UNPUBLICATION_PENDING",
      message,
      sinceMs: sinceMs ?? (word === "" ? undefined : fence?.atMs),
      becauseOf: [...deviceSubjects, host],
      isRoutine: rest === "",
    },
  ];
}

/** Explains the move of a part, and what it waits for. */
function moves(tables: RegistryTables, disk: Disk, known: Known): Found[] {
  const { diskId, parts, publication: current } = disk;
  const progress = known.moveProgressOf(diskId);
  const text = moveText(tables, diskId, progress);
  if (text === undefined) return [];
  const moving = parts.flatMap(({ move }) => move ?? []);
  const targets = parts.flatMap(({ copies }) => copies.filter(({ state }) => state === "COPYING"));
  const isFailing = moving.some(({ attempts }) => attempts > 0);
  return [
    {
      reason: "MOVING",
      message: `disk ${diskId}: ${text}`,
      sinceMs: moving.length === 0 ? undefined : Math.min(...moving.map(({ requestedAtMs }) => requestedAtMs)),
      cures: [["leave the disk where it is", `diskmesh cancel-move ${diskId}`]],
      becauseOf: [
        ...targets.map(({ deviceId }): Subject => ({ kind: "DEVICE", name: deviceId })),
        ...(current === undefined ? [] : [{ kind: "HOST", name: current.hostId } as const]),
      ],
      isRoutine: !isFailing && progress?.isShort !== true,
    },
  ];
}

function fenced(diskId: DiskId, { hostId, by, reason, atMs }: Fence): Found {
  return {
    reason: "FENCED",
    message: `disk ${diskId} was taken from host ${hostId} by ${by}${reason && ` (${reason})`}, and is not published`,
    sinceMs: atMs,
    cures: [["publish it to the host that needs it now (ProvideDynamicDisk, or PublishDisk)", ""]],
    becauseOf: [{ kind: "HOST", name: hostId }],
  };
}

/** Explains faults of the host that serves the disk. */
function server(tables: RegistryTables, disk: Disk, known: Known): Found[] {
  const { diskId, publication: current } = disk;
  if (current?.state !== "PUBLISHED") return [];
  const { hostId, problem } = current;
  const away = whyAway(tables, hostId, known.whySuspected);
  if (away === undefined) {
    // A problem explains why I/O stands.
    if (problem !== undefined) return [unusable(diskId, hostId, problem)];
    return standing(disk, hostId, known.openIoOf(diskId, hostId));
  }
  const message = `disk ${diskId} is published to host ${hostId}, which may not serve it: ${away}`;
  const sinceMs = silentSinceMs(tables, hostId, known);
  return [{ reason: "HOST_IN_TROUBLE", message, sinceMs, becauseOf: [{ kind: "HOST", name: hostId }] }];
}

function unusable(diskId: DiskId, hostId: HostId, { message: why, sinceMs }: PublicationProblem): Found {
  const message = `disk ${diskId} cannot be used on host ${hostId}: ${why}`;
  return { reason: "UNUSABLE_ON_HOST", message, sinceMs, becauseOf: [{ kind: "HOST", name: hostId }] };
}

/** Explains requests that the host has not answered for long, as far as it knows what holds them up. */
function standing({ diskId, limits }: Disk, hostId: HostId, io: OpenIo | undefined): Found[] {
  if (!ioStands(io)) return [];
  const { requests, throttled, waitsForDevice, waitsForBlockDevice, oldestAtMs: sinceMs } = io;
  const what = `${countText(requests, "request")} of disk ${diskId} on host ${hostId} ${requests === 1 ? "is" : "are"} not answered`;
  const found = { reason: "IO_STANDS", sinceMs } as const;
  if (waitsForDevice !== undefined)
    return [
      {
        ...found,
        message: `${what}: device ${waitsForDevice} does not answer`,
        cures: [[`repair the drive of device ${waitsForDevice}, its host, or the network to that host`, ""]],
        becauseOf: [{ kind: "DEVICE", name: waitsForDevice }],
      },
    ];
  if (waitsForBlockDevice !== "")
    return [
      {
        ...found,
        message: `${what}: block device ${waitsForBlockDevice} of the host does not answer`,
        cures: [
          [
            `continue the process that serves ${waitsForBlockDevice} if it is stopped, or end it: it is started again`,
            "",
          ],
        ],
        becauseOf: [{ kind: "HOST", name: hostId }],
      },
    ];
  if (throttled === 0) return [{ ...found, message: what, becauseOf: [{ kind: "HOST", name: hostId }] }];
  const wait = `${countText(throttled, "request waits", "requests wait")} for the limits`;
  return [
    {
      ...found,
      message: `disk ${diskId} is throttled on host ${hostId} to ${ioLimitsText(limits)}: ${wait}`,
      cures: [["raise the limits, or lift them", `diskmesh limits ${diskId} --none`]],
    },
  ];
}

/** Explains devices that are unusable now, or will be at the next publication. */
function devices(tables: RegistryTables, disk: Disk, known: Known): Found[] {
  const { diskId } = disk;
  const elsewhere = whyElsewhere(tables, diskId);
  const forgotten: Found[] = elsewhere === undefined ? [] : [{ reason: "DEVICE_IN_TROUBLE", message: elsewhere }];
  const faulty = countingDevices(disk).flatMap((deviceId): Found[] => {
    const becauseOf: Subject[] = [{ kind: "DEVICE", name: deviceId }];
    const device = tables.devices.get(deviceId);
    const away = device && whyAway(tables, device.hostId, known.whySuspected);
    if (device !== undefined && away !== undefined) {
      const { hostId } = device;
      const message = `disk ${diskId} lies on device ${deviceId} of host ${hostId}, which cannot be reached: ${away}`;
      becauseOf.push({ kind: "HOST", name: hostId });
      return [{ reason: "DEVICE_IN_TROUBLE", message, sinceMs: silentSinceMs(tables, hostId, known), becauseOf }];
    }
    const { health, message: fault } = deviceHealth(tables, disk, deviceId);
    if (health !== "ERROR") return [];
    const message = `disk ${diskId} cannot be used: ${fault}`;
    return [{ reason: "DEVICE_IN_TROUBLE", message, sinceMs: device && faultySinceMs(device), becauseOf }];
  });
  return [...forgotten, ...faulty];
}

function faultySinceMs(device: Device): number | undefined {
  const { health, attachState, stateChangedAtMs } = device;
  return health === "ERROR" || attachState === "ATTACHED" ? unhealthySinceMs(device) : stateChangedAtMs;
}

function whyAway(tables: RegistryTables, hostId: HostId, whySuspected: WhySuspected): string | undefined {
  const host = tables.hosts.get(hostId);
  return host === undefined ? `host ${hostId} is not known` : whyNotAsked(host, whySuspected);
}

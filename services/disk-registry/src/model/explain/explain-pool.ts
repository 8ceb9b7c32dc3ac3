import { bytesText, type Cure, sumBytes } from "@diskmesh/domain";
import { deletedDisks } from "../disks/deleted-disks.js";
import { isPlaceable } from "../disks/placement.js";
import { type Device, isErasable, isFree, type RegistryTables } from "../store/schema.js";
import { bytesByUse, spacesOf } from "../store/slices.js";
import type { Cause, Known, Subject } from "./cause.js";

const SHOWN_HOSTS = 3;

/** Bytes of a pool, by their availability for new disks. */
interface PoolRoom {
  freeBytes: number;
  /** Size of the largest disk with one part for which there is room. */
  maxPartBytes: number;
  usedBytes: number;
  /** Bytes of deleted disks that are kept. */
  deletedBytes: number;
  toBeErasedBytes: number;
  /** Bytes on hosts and devices that get no new disks. */
  keptOutBytes: number;
  notAddedBytes: number;
  readonly hostsNotAdded: Set<Device["hostId"]>;
  readonly hostsKeptOut: Set<Device["hostId"]>;
}

/**
 * Explains why a new disk may find no space. Any pool can have such a cause, because the size of a future request is
 * unknown.
 */
export function poolCauses(tables: RegistryTables, pool: string, known: Known): Cause[] {
  const room = roomOf(tables, pool, known);
  const { hostsNotAdded, hostsKeptOut, maxPartBytes } = room;
  const isSplit = maxPartBytes > 0 && maxPartBytes < room.freeBytes;
  const largestRun = isSplit ? ` (the largest free run has room for ${bytesText(maxPartBytes)})` : "";
  const parts = [
    `${bytesText(room.freeBytes)} are free${largestRun}`,
    room.deletedBytes > 0 && `${bytesText(room.deletedBytes)} of deleted disks, erased when a new disk needs the space`,
    room.usedBytes > 0 && `${bytesText(room.usedBytes)} in use`,
    room.toBeErasedBytes > 0 && `${bytesText(room.toBeErasedBytes)} to be erased first`,
    room.keptOutBytes > 0 && `${bytesText(room.keptOutBytes)} on hosts or devices that take no new disks now`,
    room.notAddedBytes > 0 && `${bytesText(room.notAddedBytes)} on devices that have not been added`,
  ].filter(Boolean);
  const add = [...hostsNotAdded]
    .slice(0, SHOWN_HOSTS)
    .map((hostId): Cure => ["add the host's devices", `diskmesh add-host ${hostId}`]);
  return [
    {
      subject: { kind: "POOL", name: pool },
      reason: "POOL_ROOM",
      message: `pool ${pool}: ${parts.join(", ")}`,
      cures: [...add, ["delete disks that are not needed, or add hosts", "diskmesh disks"]],
      becauseOf: [...hostsKeptOut].slice(0, SHOWN_HOSTS).map((name): Subject => ({ kind: "HOST", name })),
    },
  ];
}

function roomOf(tables: RegistryTables, pool: string, { whySuspected }: Known): PoolRoom {
  const hostsNotAdded = new Set<Device["hostId"]>();
  const hostsKeptOut = new Set<Device["hostId"]>();
  const ofPool = deletedDisks(tables).filter(({ requested }) => requested.pool === pool);
  const deletedBytes = sumBytes(ofPool.map(({ sizeBytes }) => sizeBytes));
  const others = { toBeErasedBytes: 0, keptOutBytes: 0, notAddedBytes: 0 };
  const bytes = { freeBytes: 0, maxPartBytes: 0, usedBytes: -deletedBytes, deletedBytes, ...others };
  for (const device of tables.devices.entries()) {
    if (device.pool !== pool) continue;
    const { hostId, sizeBytes } = device;
    const host = tables.hosts.get(hostId);
    if (device.attachState === "UNKNOWN") {
      bytes.notAddedBytes += sizeBytes;
      // AddHost is refused for a DEAD host.
      if (host?.state !== "DEAD") hostsNotAdded.add(hostId);
      continue;
    }
    const { disk, dirty, free } = bytesByUse(device);
    bytes.usedBytes += disk;
    const isOpen = host !== undefined && isPlaceable(host, whySuspected);
    if (!isOpen && dirty + free > 0) hostsKeptOut.add(hostId);
    const isUsable = isOpen && isFree(device);
    bytes[isUsable ? "freeBytes" : "keptOutBytes"] += free;
    const [largest] = isUsable ? spacesOf(device) : [];
    bytes.maxPartBytes = Math.max(bytes.maxPartBytes, largest?.sizeBytes ?? 0);
    bytes[isOpen && isErasable(device) ? "toBeErasedBytes" : "keptOutBytes"] += dirty;
  }
  return { ...bytes, hostsNotAdded, hostsKeptOut };
}

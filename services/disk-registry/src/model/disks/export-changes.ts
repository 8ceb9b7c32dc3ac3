import { type DeviceId, type DiskId, type HostId, type IoLimits, sameIoLimits } from "@diskmesh/domain";
import { nextSessionNumber } from "../devices/counters.js";
import type { Copy, Part } from "../store/disk-parts.js";
import { copyAtSlice, sessionOf, withoutLeaving } from "../store/layout.js";
import {
  type Device,
  type Disk,
  type Host,
  isChangePending,
  type Publication,
  type RegistryTables,
  type RegistryTransaction,
} from "../store/schema.js";
import { isCurrent, type PublicationStep, putPublication, requireDisk } from "./publications.js";
import type { SessionGroup, SessionPlan } from "./session-plan.js";

/** Changes of a disk that its host applies to the running export, within the session. */

/** Replaces the limits of a disk's I/O. A host that serves the disk, or begins to, gets a new revision. */
export function setDiskLimits(tx: RegistryTransaction, diskId: DiskId, limits: IoLimits | undefined): Disk {
  const before = requireDisk(tx, diskId);
  if (sameIoLimits(before.limits, limits)) return before;
  const { limits: _, ...rest } = before;
  const disk = withNextRevision(limits === undefined ? rest : { ...rest, limits });
  tx.disks.put(disk);
  return disk;
}

/**
 * Returns the disk, of which these parts were added or have become longer, with what its publication needs of their
 * runs. A host that serves the disk goes on in its session. A longer run widens its session; a new one gets a session of
 * its own, because its bytes may have seen later ones.
 */
export function withAddedBytes(tx: RegistryTransaction, before: Disk, disk: Disk, parts: readonly Part[]): Disk {
  const { publication } = disk;
  if (publication === undefined || publication.state === "UNPUBLISHING") return disk;
  // Nothing is served yet, so that all devices can get one new session.
  if (publication.state === "PUBLISHING") return putPublication(tx, disk, publication);
  const formerCopy = ({ deviceId, first = 0 }: Copy): Copy | undefined => copyAtSlice(before, deviceId, first);
  const isNew = parts.some(({ copies }) => copies.some((copy) => formerCopy(copy) === undefined));
  const newSession = isNew ? nextSessionNumber(tx) : 0;
  const inSession = (copy: Copy): Copy => {
    const former = formerCopy(copy);
    return { ...copy, sessionNumber: former === undefined ? newSession : sessionOf(before, former) };
  };
  const added = disk.parts.map((part) =>
    parts.includes(part) ? { ...part, copies: part.copies.map(inSession) } : part,
  );
  return withNextRevision({ ...disk, parts: added, ...(isNew && { lastSessionNumber: newSession }) });
}

/** Returns the devices with sessions of their own, to ask for these, by host and session. */
export function groupsOfOwnSessions({
  disk,
  groups,
}: SessionPlan): readonly (SessionGroup & { sessionNumber: number })[] {
  const asked = new Map<DeviceId, { host: Host; device: Device }>(
    groups.flatMap(({ host, devices }) => devices.map((device) => [device.deviceId, { host, device }])),
  );
  const found = new Map<string, { host: Host; devices: Device[]; sessionNumber: number }>();
  for (const { deviceId, sessionNumber } of disk.parts.flatMap(({ copies }) => copies)) {
    const on = asked.get(deviceId);
    if (on === undefined || sessionNumber === undefined) continue;
    const { host, device } = on;
    const key = `${host.hostId} ${sessionNumber}`;
    const group = found.get(key) ?? { host, devices: [], sessionNumber };
    if (!group.devices.includes(device)) group.devices.push(device);
    found.set(key, group);
  }
  return [...found.values()];
}

/** Returns whether the host has confirmed the disk's present limits and size, or need not, being the host no longer. */
export function changeProgress(tables: RegistryTables, diskId: DiskId, hostId: HostId | undefined): PublicationStep {
  const disk = requireDisk(tables, diskId);
  const { publication } = disk;
  const isServed = publication !== undefined && publication.hostId === hostId && publication.state !== "UNPUBLISHING";
  const isAwaited = isServed && (publication.state === "PUBLISHING" || isChangePending(publication));
  return { progress: isAwaited ? "under_way" : "reached", disk };
}

/** Returns the disk with a change that the host of its publication has to confirm; unchanged when none serves it. */
export function withNextRevision(disk: Disk): Disk {
  const { publication } = disk;
  if (publication === undefined || publication.state === "UNPUBLISHING") return disk;
  const next: Publication = { ...publication, revision: (publication.revision ?? 0) + 1 };
  return { ...disk, publication: next };
}

/** Records that the host serves the disk as of the revision of `seen`, unless the session has ended. */
export function completeChange(tx: RegistryTransaction, diskId: DiskId, seen: Publication): void {
  const disk = tx.disks.get(diskId);
  if (disk?.publication === undefined || !isCurrent(tx, diskId, seen)) return;
  const { pending: _, ...publication } = disk.publication;
  const confirmed = { confirmedRevision: seen.revision, attempts: 0, lastError: "" };
  // A layout that is newer than the confirmed one may have a source that the host still uses.
  const isNewest = publication.revision === seen.revision;
  const used = isNewest ? withoutLeaving(tx, disk) : disk;
  tx.disks.put({ ...used, publication: { ...publication, ...confirmed } });
}

import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { requireHost } from "../devices/device-selection.js";
import type { Disk, Fence, RegistryTables, RegistryTransaction } from "../store/schema.js";
import { planSession, takeAway } from "./publications.js";

/** Whose word a fence is, when, and why. */
export type FenceWord = Omit<Fence, "hostId">;

/** Takes every disk from the host that it holds, or may still hold. Nothing is sent anywhere before this is durable. */
export function fenceHost(tx: RegistryTransaction, hostId: HostId, word: FenceWord): readonly DiskId[] {
  requireHost(tx, hostId);
  return fenceAll(tx, hostId, word, () => true);
}

/** Takes those disks from the hosts that are to be taken from a host that is silent. */
export function fenceSilent(
  tx: RegistryTransaction,
  hostIds: readonly HostId[],
  wordOn: (hostId: HostId) => FenceWord,
): readonly DiskId[] {
  return hostIds.flatMap((hostId) => fenceAll(tx, hostId, wordOn(hostId), isFencedBySilence));
}

function isFencedBySilence({ publication }: Disk): boolean {
  return publication?.onHostSilence === "FENCE";
}

function fenceAll(
  tx: RegistryTransaction,
  hostId: HostId,
  word: FenceWord,
  isMeant: (disk: Disk) => boolean,
): readonly DiskId[] {
  const disks = [...tx.disks.by("byPublicationHost", hostId)].filter(isMeant);
  for (const disk of disks) takeAway(tx, disk, { ...word, hostId });
  return disks.map((disk) => disk.diskId).sort();
}

/** A device that has not granted the fence's session, and why. */
interface UnaskedDevice {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
  readonly reason: string;
}

export interface FenceProgress {
  readonly diskId: DiskId;
  /** Every device refuses what the host sends in its sessions. */
  readonly complete: boolean;
  readonly unaskedDevices: readonly UnaskedDevice[];
}

/** How far the fence is that takes the disk from the host. `answers`: what devices that were asked said, unless they granted it. */
export function fenceProgress(
  tables: RegistryTables,
  diskId: DiskId,
  hostId: HostId,
  answers: ReadonlyMap<DeviceId, string>,
): FenceProgress {
  const disk = tables.disks.get(diskId);
  const isOver = disk?.publication?.hostId !== hostId || disk.publication.state !== "UNPUBLISHING";
  if (isOver) return { diskId, complete: true, unaskedDevices: [] };
  const plan = planSession(tables, diskId);
  const unaskedDevices = (plan?.devices ?? []).flatMap((device): UnaskedDevice[] => {
    const { deviceId } = device;
    const reason = plan?.unasked.get(deviceId) ?? answers.get(deviceId);
    return reason === undefined ? [] : [{ deviceId, hostId: device.hostId, reason }];
  });
  return { diskId, complete: false, unaskedDevices };
}

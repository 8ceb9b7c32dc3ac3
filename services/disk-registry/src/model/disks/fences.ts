import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { requireHost } from "../devices/device-selection.js";
import type { Disk, Fence, RegistryTables, RegistryTransaction } from "../store/schema.js";
import { takeAway } from "./publications.js";
import { planSession } from "./session-plan.js";

/** Author, time and reason of a fence. */
export type FenceWord = Omit<Fence, "hostId">;

/**
 * Fences off every disk that the host serves or may still serve. Only stores the intent; workers send the orders after
 * the commit.
 */
export function fenceHost(tx: RegistryTransaction, hostId: HostId, word: FenceWord): readonly DiskId[] {
  requireHost(tx, hostId);
  return fenceAll(tx, hostId, word, () => true);
}

/** Fences off the disks of silent hosts whose `onHostSilence` is FENCE. */
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

/** A device that has not granted the fence's session, and the reason. */
interface UnaskedDevice {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
  readonly reason: string;
}

export interface FenceProgress {
  readonly diskId: DiskId;
  /** True when every device refuses I/O in the host's sessions. */
  readonly complete: boolean;
  readonly unaskedDevices: readonly UnaskedDevice[];
}

/**
 * Returns the progress of the fence that takes the disk from the host. `answers` are the refusals of the devices that
 * were asked.
 */
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

import type { DeviceId, DiskId } from "@diskmesh/domain";
import { type CopiedDisk, devicesIn } from "./copied-disk.js";

/** Copies of a part that a holder uses. */
interface OrderedPart {
  readonly layout: number;
  readonly counting: readonly DeviceId[];
  /** Copies that are written behind their copied regions. */
  readonly copying: readonly DeviceId[];
  /** Copies that a person may make count; the records of the counting ones name them. */
  readonly remembered: readonly DeviceId[];
  /** Sessions of copies that have another than the order's. */
  readonly sessions: ReadonlyMap<DeviceId, number>;
}

interface OrderedSnapshot {
  readonly jobId: string;
  /** Disk that the targets become. */
  readonly diskId: DiskId;
  /** One device for each part. */
  readonly targets: readonly DeviceId[];
  readonly targetSession: number;
}

/** The disk as its holder is told. A higher revision of a session replaces a lower one. */
export interface HolderOrder {
  readonly session: number;
  readonly revision: number;
  /** True when the holder only copies: nobody uses the disk. */
  readonly isRepair: boolean;
  readonly parts: readonly OrderedPart[];
  readonly snapshot?: OrderedSnapshot | undefined;
}

/** Returns the order to the holder; undefined while nobody may serve the disk. */
export function orderOf(disk: CopiedDisk): HolderOrder | undefined {
  const { publication, snapshot } = disk;
  if (publication?.state !== "PUBLISHED") return undefined;
  const { session, revision } = publication;
  const isReady = snapshot?.session === session && snapshot.granted.length === snapshot.targets.length;
  return {
    session,
    revision,
    isRepair: publication.isRepair === true,
    parts: disk.parts.map((part) => ({
      layout: part.layout,
      counting: devicesIn(part, "COUNTS"),
      copying: part.copies.filter(({ isOpen }) => isOpen).map(({ deviceId }) => deviceId),
      remembered: [...devicesIn(part, "RESYNC"), ...devicesIn(part, "DROPPED")],
      sessions: new Map(part.copies.flatMap((copy) => (copy.session ? [[copy.deviceId, copy.session]] : []))),
    })),
    ...(isReady && { snapshot }),
  };
}

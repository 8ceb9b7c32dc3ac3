import {
  AttachState,
  type Device,
  type Disk,
  Health,
  type Host,
  PublicationState,
  type Trouble,
} from "@diskmesh/api/registry";
import { DISK_NAME_LABEL, ioLimitsText } from "@diskmesh/domain";
import type { DeviceLetter, DeviceRow, DiskRow, HostRow } from "@diskmesh/page/rows";

export function hostRow(host: Host, devices: string): HostRow {
  const { state, az, rack, assignment, stateChangeTime, removalRequested, trouble } = host;
  // The page shows a host in maintenance as cordoned, and its `why` says which of both it is.
  const cordoned = host.cordoned ?? host.maintenance;
  const told = lower("HOST_STATE_", state) as HostRow["state"];
  const isSuspected = host.suspected && told !== "unavailable" && told !== "dead";
  // A removal that still waits is trouble, and a host that is out of operation has none. No trouble therefore means
  // that the removal is done.
  const removal = !removalRequested ? "" : trouble === undefined ? "done" : "wanted";
  const stateSince = told === "online" && cordoned !== undefined ? cordoned.setTime : stateChangeTime;
  return {
    state: isSuspected ? "suspected" : told,
    removal,
    isCordoned: cordoned !== undefined,
    az,
    rack,
    vm: assignment?.vmCid ?? "",
    devices,
    // It is not known when a removal was done.
    ...shown(trouble, removal === "done" ? undefined : stateSince),
  };
}

const LETTERS: Readonly<Record<string, DeviceLetter>> = {
  [AttachState.ATTACHED]: "a",
  [AttachState.ATTACHING]: "g",
  [AttachState.CLOSING]: "c",
  [AttachState.DETACHED]: "d",
};

export function letterOf({ attachState, health }: Device): DeviceLetter {
  if (health === Health.ERROR) return "x";
  if (health === Health.WARNING) return "w";
  return LETTERS[attachState] ?? "u";
}

/** Returns the row of a device with trouble; undefined for a healthy device. */
export function deviceRow({ hostId, attachState, diskId, trouble }: Device): DeviceRow | undefined {
  if (trouble === undefined) return undefined;
  return { host: hostId, state: lower("ATTACH_STATE_", attachState), disk: diskId, ...shown(trouble, undefined) };
}

const PUBLICATIONS: Readonly<Record<string, DiskRow["state"]>> = {
  [PublicationState.PUBLISHING]: "publishing",
  [PublicationState.PUBLISHED]: "published",
  [PublicationState.UNPUBLISHING]: "unpublishing",
};

export function diskRow(disk: Disk): DiskRow {
  const { publication, az, pool, sizeBytes, health, parts, createTime, deleteTime, trouble, limits, labels } = disk;
  const formerName = labels.find(({ name }) => name === DISK_NAME_LABEL)?.value;
  return {
    state: deleteTime === undefined ? (PUBLICATIONS[publication?.state ?? ""] ?? "free") : "deleted",
    ...(deleteTime !== undefined && formerName !== undefined && { formerName }),
    host: publication?.hostId ?? "",
    az,
    pool,
    sizeBytes,
    health: lower("HEALTH_", health),
    isMoving: parts.some(({ move }) => move !== undefined),
    limits: ioLimitsText(limits),
    ...shown(trouble, deleteTime ?? createTime),
  };
}

/** Returns the trouble with its start. Without trouble, `since` is the start of the present state. */
function shown(trouble: Trouble | undefined, since: Date | undefined): ReturnType<typeof about> {
  return trouble === undefined ? about("", since) : about(trouble.sentence, trouble.startTime);
}

/** Returns the non-empty fields. */
export function about(
  trouble: string,
  since: Date | undefined,
): { readonly trouble?: string; readonly sinceMs?: number } {
  return { ...(trouble !== "" && { trouble }), ...(since !== undefined && { sinceMs: since.getTime() }) };
}

/** Returns an enum value's display name. */
export function lower(prefix: string, name: string): string {
  return name.replace(prefix, "").toLowerCase();
}

import type { DeviceId, DiskId } from "@diskmesh/domain";
import { disksOn, type Runs } from "../store/runs.js";

export type ActionCode = "S_OK" | "S_ALREADY" | "S_PARTLY" | "E_TRY_AGAIN";

/**
 * Result of a CMS action that is in progress, or was done at least in part. All other actions throw and change nothing.
 */
export interface ActionResult {
  readonly code: ActionCode;
  readonly message: string;
  /** Set with E_TRY_AGAIN; otherwise 0. */
  readonly retryAfterMs: number;
  /** Set with E_TRY_AGAIN: all disks that still block the action. */
  readonly dependentDiskIds: readonly DiskId[];
  /** Set while a removal erases devices. */
  readonly erase?: EraseProgress | undefined;
  /**
   * Set with S_OK. A removal lists the devices that left without an erase; an addition lists the devices whose former
   * hardware was replaced without an erase.
   */
  readonly unerasedDeviceIds?: readonly DeviceId[] | undefined;
}

/** Progress of the erases that a removal waits for. */
interface EraseProgress {
  /** Total size of the devices that are not yet erased. */
  readonly bytesToErase: number;
  /** Overwritten part of those bytes, as the agents reported. */
  readonly bytesErased: number;
}

export function actionResult(
  code: ActionCode,
  message: string,
  dependentDiskIds: readonly DiskId[] = [],
): ActionResult {
  return { code, message, retryAfterMs: 0, dependentDiskIds };
}

export function tryAgain(
  message: string,
  retryAfterMs: number,
  dependentDiskIds: readonly DiskId[] = [],
): ActionResult {
  return { code: "E_TRY_AGAIN", message, retryAfterMs, dependentDiskIds };
}

const MAX_NAMED = 10;

/** Formats the disks on the device for a message, as "disk a", or "disks a, b"; empty for none. */
export function disksText(device: Runs): string {
  const ids = disksOn([device]);
  return ids.length === 0 ? "" : `${ids.length === 1 ? "disk" : "disks"} ${named(ids)}`;
}

/** Formats the disks on the device as a statement: "disk a is on it", or "disks a, b are on it". */
export function disksOnItText(device: Runs): string {
  return `${disksText(device)} ${disksOn([device]).length === 1 ? "is" : "are"} on it`;
}

/** Formats the first ids for a message, followed by the number of omitted ids. */
export function named(ids: readonly string[]): string {
  const more = ids.length - MAX_NAMED;
  return more > 0 ? `${ids.slice(0, MAX_NAMED).join(", ")} and ${more} more` : ids.join(", ");
}

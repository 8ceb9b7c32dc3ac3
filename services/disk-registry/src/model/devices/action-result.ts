import type { DeviceId, DiskId } from "@diskmesh/domain";

export type ActionCode = "S_OK" | "S_ALREADY" | "E_TRY_AGAIN" | "E_NOT_FOUND" | "E_INVALID_STATE" | "E_ARGUMENT";

/** What a CMS action came to. */
export interface ActionResult {
  readonly code: ActionCode;
  readonly message: string;
  /** With E_TRY_AGAIN; else 0. */
  readonly retryAfterMs: number;
  /** With E_TRY_AGAIN: every disk that still stands in the way, each time. */
  readonly dependentDiskIds: readonly DiskId[];
  /** While a removal erases devices. */
  readonly erase?: EraseProgress | undefined;
  /** With S_OK of a removal: every device that left with what was on it. Of an addition: whose former hardware did. */
  readonly unerasedDeviceIds?: readonly DeviceId[] | undefined;
}

/** How far the erases are that a removal waits for. */
interface EraseProgress {
  /** Of the devices that are not yet erased. */
  readonly bytesToErase: number;
  /** Of those bytes, what their agent has overwritten. */
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

/** The first of them by name, and how many more there are: a message is for people. */
export function named(ids: readonly string[]): string {
  const more = ids.length - MAX_NAMED;
  return more > 0 ? `${ids.slice(0, MAX_NAMED).join(", ")} and ${more} more` : ids.join(", ");
}

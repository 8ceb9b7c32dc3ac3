import type { DiskId } from "@diskmesh/domain";

export type ActionCode = "S_OK" | "S_ALREADY" | "E_TRY_AGAIN" | "E_NOT_FOUND" | "E_INVALID_STATE" | "E_ARGUMENT";

/** What a CMS action came to. */
export interface ActionResult {
  readonly code: ActionCode;
  readonly message: string;
  /** With E_TRY_AGAIN; else 0. */
  readonly retryAfterMs: number;
  /** With E_TRY_AGAIN: every disk that still stands in the way, each time. */
  readonly dependentDiskIds: readonly DiskId[];
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

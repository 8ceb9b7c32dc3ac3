import { type DeviceId, parseDeviceId } from "@diskmesh/domain";
import { nameOfRun } from "../model/runs.js";

/** Run and session that a holder's connection is for: the identity of its pre-shared key. */
export interface SessionIdentity {
  readonly deviceId: DeviceId;
  readonly sessionNumber: number;
  /** Start of the run on the device; absent for 0. */
  readonly offsetBytes?: number | undefined;
}

export function formatSessionIdentity({ deviceId, sessionNumber, offsetBytes = 0 }: SessionIdentity): string {
  const run = offsetBytes === 0 ? deviceId : nameOfRun({ deviceId, offsetBytes });
  return `${run}/${sessionNumber}`;
}

/** Returns the identity of the text; undefined when the text is malformed. */
export function parseSessionIdentity(text: string): Required<SessionIdentity> | undefined {
  const [, device = "", offset = "0", digits = ""] =
    /^([^/]+)(?:\/([1-9][0-9]{0,15}))?\/([1-9][0-9]{0,15})$/.exec(text) ?? [];
  const [offsetBytes, sessionNumber] = [Number(offset), Number(digits)];
  if (!Number.isSafeInteger(sessionNumber) || sessionNumber === 0) return undefined;
  if (!Number.isSafeInteger(offsetBytes)) return undefined;
  try {
    return { deviceId: parseDeviceId(device), sessionNumber, offsetBytes };
  } catch {
    return undefined;
  }
}

/** Returns the name under which a run is exported to its holder until the device's machine restarts. */
export function exportNameOf(identity: string, machineBootId: string): string {
  return `${identity}@${machineBootId}`;
}

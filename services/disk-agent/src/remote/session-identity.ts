import { type DeviceId, parseDeviceId } from "@diskmesh/domain";

/** Device and session that a holder's connection is for: the identity of its pre-shared key. */
export interface SessionIdentity {
  readonly deviceId: DeviceId;
  readonly sessionNumber: number;
}

export function formatSessionIdentity({ deviceId, sessionNumber }: SessionIdentity): string {
  return `${deviceId}/${sessionNumber}`;
}

/** Returns the identity of the text; undefined when the text is malformed. */
export function parseSessionIdentity(text: string): SessionIdentity | undefined {
  const [, device = "", digits = ""] = /^([^/]+)\/([1-9][0-9]{0,15})$/.exec(text) ?? [];
  const sessionNumber = Number(digits);
  if (!Number.isSafeInteger(sessionNumber) || sessionNumber === 0) return undefined;
  try {
    return { deviceId: parseDeviceId(device), sessionNumber };
  } catch {
    return undefined;
  }
}

/** Returns the name under which a device is exported to its holder until the device's machine restarts. */
export function exportNameOf(identity: string, machineBootId: string): string {
  return `${identity}@${machineBootId}`;
}

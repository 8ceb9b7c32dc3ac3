import type { DeviceId } from "@diskmesh/domain";
import type { DeviceIdentity } from "./device-identity.js";

/** Label that a drive carries, as its agent read it. */
export interface FoundLabel {
  /** Random id, of this writing of a label alone. */
  readonly labelId: string;
  /** Device that the label names. */
  readonly deviceId: DeviceId;
  /** Tablet id of the registry that ordered the label; absent for this registry's own. */
  readonly fleetId?: string | undefined;
}

/**
 * Result of an agent's search for a label. Absent: its agent reads none, or could not read the device. USERS: bytes of a
 * disk, or of one that is being erased, are where the label would be.
 */
export type LabelState = "NONE" | "DAMAGED" | "VALID" | "USERS";

/** Returns whether a label was looked for where one may be. */
export function isLabelRead(state: LabelState | undefined): boolean {
  return state !== undefined && state !== "USERS";
}

/** Facts about a device's label. */
export interface Labelled {
  /** Label that the drive is known to carry: written and read back, or found where the hardware agrees. Absent: none. */
  readonly label?: { readonly labelId: string } | undefined;
  /** State in the last report. */
  readonly labelState?: LabelState | undefined;
  /** Label in the last report, when it is not the device's own. */
  readonly foundLabel?: FoundLabel | undefined;
  /** Label of a former use, which the drive carries until the device's own is written; absent for none. */
  readonly formerLabelId?: string | undefined;
}

/**
 * Why the hardware in a device's place is not used.
 * UNIDENTIFIED            nothing differs and nothing proves it the same: ConfirmDevice
 * LABEL_LOST              it is the device's hardware, but its label was overwritten, and a disk is on it: ConfirmDevice
 * OTHER_HARDWARE          it is another drive, and no label says otherwise
 * LABEL_ON_OTHER_HARDWARE it carries the device's label, and is not proven to be its hardware: AdoptDevice
 * LABEL_TWICE             a drive in another place carries the same label, and neither is proven: AdoptDevice for one
 * LABEL_OF_OTHER_DEVICE   it carries the label of another device of this registry
 * LABEL_OF_OTHER_FLEET    it carries the label of another fleet, or of a device that this registry does not know
 */
export type RefusedFor =
  | "UNIDENTIFIED"
  | "LABEL_LOST"
  | "OTHER_HARDWARE"
  | "LABEL_ON_OTHER_HARDWARE"
  | "LABEL_TWICE"
  | "LABEL_OF_OTHER_DEVICE"
  | "LABEL_OF_OTHER_FLEET";

/** Hardware that is not, or is not known to be, the device in whose place it was found. */
export interface Replacement extends DeviceIdentity {
  /** Why it is not used. Absent in documents of 0.1.0. */
  readonly refusedFor?: RefusedFor | undefined;
}

/** How an agent last found the place of a device, where that is not as it should be. */
export interface InPlace {
  /** True when the agent's last registration lacked the device. */
  readonly missing?: true | undefined;
  /** True when the agent's last registration found no file or drive in the device's place. */
  readonly nothingThere?: true | undefined;
  /** True when the agent's last report of the device was malformed, so the stored fields may be outdated. */
  readonly refused?: true | undefined;
  /**
   * Hardware that the agent found in the device's place, until AddDevice accepts it as new, or ConfirmDevice or
   * AdoptDevice states that it is the device.
   */
  readonly replacement?: Replacement | undefined;
  /** Grown size of the file or drive, in bytes. AddDevice accepts it once no disk is on the device. */
  readonly grownToBytes?: number | undefined;
}

import type { RefusedFor } from "../store/device-label.js";

/** How the hardware found in a device's place compares with the recorded one. */
export type Hardware = "SAME" | "UNKNOWN" | "OTHER";

/**
 * How the label found in a device's place compares with the recorded one.
 * UNREAD         the agent reads no labels, or could not read the device
 * NONE           no label
 * DAMAGED        a label of which no copy is whole
 * OWN            the recorded label
 * OWN_TWICE      the recorded label, and a drive in another place carries it, too
 * UNRECORDED     a label that names this device, of which none is recorded
 * FORMER         a label that names this device, and is not the recorded one
 * OF_OTHER       the label of another device of this registry
 * OF_OTHER_FLEET the label of another fleet, or of a device that this registry does not know
 */
export type Label =
  | "UNREAD"
  | "NONE"
  | "DAMAGED"
  | "OWN"
  | "OWN_TWICE"
  | "UNRECORDED"
  | "FORMER"
  | "OF_OTHER"
  | "OF_OTHER_FLEET";

/**
 * Decision about the hardware in the place of a device in use.
 * ACCEPT   it is the device
 * RECORD   it is the device, and the label that it carries is recorded
 * REWRITE  it is the device, and a recorded label is dropped, so that one is written again
 */
export type Decision = "ACCEPT" | "RECORD" | "REWRITE" | RefusedFor;

/** All rules of identity: neither the label nor, without a label, unknown hardware is believed alone. */
const DECISIONS: Readonly<Record<Label, Readonly<Record<Hardware, Decision>>>> = {
  UNREAD: { SAME: "ACCEPT", UNKNOWN: "UNIDENTIFIED", OTHER: "OTHER_HARDWARE" },
  NONE: { SAME: "REWRITE", UNKNOWN: "UNIDENTIFIED", OTHER: "OTHER_HARDWARE" },
  DAMAGED: { SAME: "REWRITE", UNKNOWN: "UNIDENTIFIED", OTHER: "OTHER_HARDWARE" },
  OWN: { SAME: "ACCEPT", UNKNOWN: "ACCEPT", OTHER: "LABEL_ON_OTHER_HARDWARE" },
  OWN_TWICE: { SAME: "ACCEPT", UNKNOWN: "LABEL_TWICE", OTHER: "LABEL_TWICE" },
  UNRECORDED: { SAME: "RECORD", UNKNOWN: "LABEL_ON_OTHER_HARDWARE", OTHER: "LABEL_ON_OTHER_HARDWARE" },
  FORMER: { SAME: "RECORD", UNKNOWN: "LABEL_ON_OTHER_HARDWARE", OTHER: "OTHER_HARDWARE" },
  OF_OTHER: { SAME: "LABEL_OF_OTHER_DEVICE", UNKNOWN: "LABEL_OF_OTHER_DEVICE", OTHER: "LABEL_OF_OTHER_DEVICE" },
  OF_OTHER_FLEET: { SAME: "LABEL_OF_OTHER_FLEET", UNKNOWN: "LABEL_OF_OTHER_FLEET", OTHER: "LABEL_OF_OTHER_FLEET" },
};

/** Decides whether the hardware in the place of a device in use is the device. */
export function decide(label: Label, hardware: Hardware): Decision {
  return DECISIONS[label][hardware];
}

export function isRefused(decision: Decision): decision is RefusedFor {
  return decision !== "ACCEPT" && decision !== "RECORD" && decision !== "REWRITE";
}

import type { RefusedFor } from "../store/device-label.js";

/**
 * How the hardware found in a device's place compares with the recorded one.
 * SAME      proven to be the same
 * NAMELESS  nothing identifies either after a boot of the machine, and nothing differs
 * UNPROVEN  one of the two is identified, and nothing differs
 * OTHER     proven to be other hardware
 */
export type Hardware = "SAME" | "NAMELESS" | "UNPROVEN" | "OTHER";

/**
 * How the label found in a device's place compares with the recorded one.
 * UNREAD         the agent reads no labels, or could not read the device
 * NONE           no label
 * DAMAGED        a label of which no copy is whole
 * LOST           no whole label where the recorded one was, and a disk on the device
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
  | "LOST"
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

/** All rules of identity: a label vouches only for hardware that nothing else identifies. */
const DECISIONS: Readonly<Record<Label, Readonly<Record<Hardware, Decision>>>> = {
  UNREAD: rule("ACCEPT", "UNIDENTIFIED", "UNIDENTIFIED", "OTHER_HARDWARE"),
  NONE: rule("REWRITE", "UNIDENTIFIED", "UNIDENTIFIED", "OTHER_HARDWARE"),
  DAMAGED: rule("REWRITE", "UNIDENTIFIED", "UNIDENTIFIED", "OTHER_HARDWARE"),
  // Whatever overwrote the label may have overwritten the disk, and a device that is labelled anew would serve that.
  LOST: rule("LABEL_LOST", "UNIDENTIFIED", "UNIDENTIFIED", "OTHER_HARDWARE"),
  OWN: rule("ACCEPT", "ACCEPT", "LABEL_ON_OTHER_HARDWARE", "LABEL_ON_OTHER_HARDWARE"),
  OWN_TWICE: rule("ACCEPT", "LABEL_TWICE", "LABEL_TWICE", "LABEL_TWICE"),
  UNRECORDED: rule("RECORD", "LABEL_ON_OTHER_HARDWARE", "LABEL_ON_OTHER_HARDWARE", "LABEL_ON_OTHER_HARDWARE"),
  FORMER: rule("RECORD", "LABEL_ON_OTHER_HARDWARE", "LABEL_ON_OTHER_HARDWARE", "OTHER_HARDWARE"),
  OF_OTHER: always("LABEL_OF_OTHER_DEVICE"),
  OF_OTHER_FLEET: always("LABEL_OF_OTHER_FLEET"),
};

function rule(SAME: Decision, NAMELESS: Decision, UNPROVEN: Decision, OTHER: Decision): Record<Hardware, Decision> {
  return { SAME, NAMELESS, UNPROVEN, OTHER };
}

function always(decision: Decision): Record<Hardware, Decision> {
  return rule(decision, decision, decision, decision);
}

/** Facts about a device beside its label and hardware. */
interface Holding {
  /** Nothing but the label identifies the device after the next boot of its machine. */
  readonly isKnownByLabel?: boolean;
  /** The agent has held the device open since the registry last knew it as held. */
  readonly heldSince?: boolean;
}

/**
 * Decides whether the hardware in the place of a device in use is the device. A drive that nothing but its label
 * identifies after the next boot gets another label once a copy of it was seen: the copy may be in its place then. A
 * held device whose label is lost goes on, in ERROR: the end of its disks' I/O saves nothing.
 */
export function decide(label: Label, hardware: Hardware, { isKnownByLabel, heldSince }: Holding = {}): Decision {
  if (label === "LOST" && hardware === "SAME" && heldSince) return "ACCEPT";
  const isCopied = label === "OWN_TWICE" && hardware === "SAME" && isKnownByLabel;
  return isCopied ? "REWRITE" : DECISIONS[label][hardware];
}

export function isRefused(decision: Decision): decision is RefusedFor {
  return decision !== "ACCEPT" && decision !== "RECORD" && decision !== "REWRITE";
}

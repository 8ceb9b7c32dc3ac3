import type { Labelled } from "./device-label.js";
import type { Runs } from "./runs.js";
import type { Sliced } from "./slices.js";

/** Facts of a device that decide whether a label is written. */
interface LabelUse extends Labelled, Sliced, Runs {
  readonly attachState: string;
  readonly health: string;
  readonly unknownSession?: object | undefined;
  readonly removalRequested: boolean;
  readonly keepData?: true | undefined;
}

/**
 * Returns what its agent is to do with the device's label; undefined for nothing. A device without slices has none, nor has
 * one of which all bytes are a disk's, or are to be erased. A label is removed last, once nothing else is left there. An
 * agent that takes the first bytes for a disk's, although none has them, remembers an erase that it was never told to
 * forget: the session of a label ends that.
 */
export function labelDue(device: LabelUse): "write" | "remove" | undefined {
  const { attachState, health, unknownSession, sliceBytes, runs, label, labelState, foundLabel } = device;
  const isUp = attachState === "ATTACHED" && health !== "ERROR" && unknownSession === undefined;
  if (!isUp || labelState === undefined || sliceBytes === undefined) return undefined;
  if (device.removalRequested)
    return label !== undefined && runs.length === 0 && !device.keepData ? "remove" : undefined;
  const isWhole = runs.some(({ count }) => count === undefined);
  const isMissing = label === undefined || labelState === "USERS";
  return isMissing && foundLabel === undefined && !isWhole ? "write" : undefined;
}

/** Returns the device whose drive carries no label, or the given one. */
export function withLabel<T extends Labelled>(device: T, labelId?: string): T {
  const { label: _, foundLabel: __, formerLabelId: ___, labelState, ...rest } = device;
  const state = labelState && { labelState: labelId === undefined ? ("NONE" as const) : ("VALID" as const) };
  return { ...rest, ...state, ...(labelId !== undefined && { label: { labelId } }) } as T;
}

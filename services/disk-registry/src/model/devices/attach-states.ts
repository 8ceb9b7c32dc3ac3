import type { AttachState, Device, RegistryTransaction } from "../store/schema.js";
import { nextDeviceGeneration } from "./counters.js";

export type AttachEvent =
  /** AddHost or AddDevice. */
  | "add"
  /**
   * AddHost or AddDevice accepts the replacement that the agent found. This makes orders for the former hardware
   * outdated.
   */
  | "replacement_accepted"
  /** The agent confirms the attach of the current generation. */
  | "attach_confirmed"
  /** The agent fails the attach, or does not answer. */
  | "attach_failed"
  /** The agent registers and does not hold the device. */
  | "registered_without"
  /** Another device in operation lies on the same bytes, and this device has no disk. */
  | "refused"
  /** RemoveHost or RemoveDevice, with no disk left on any device that it names. */
  | "remove"
  /** The agent confirms the detach of the current generation, or has no such device. */
  | "detach_confirmed"
  /** The host was UNAVAILABLE for the removal timeout. */
  | "removal_timeout"
  /** PurgeHost or PurgeDevice. A device that an agent still reports is UNKNOWN again. */
  | "purge";

export interface Transition {
  readonly to: AttachState;
  /** "next" gives the device the next generation, which makes every earlier order outdated. */
  readonly generation: "next" | "same";
}

const to = (state: AttachState, generation: Transition["generation"]): Transition => ({ to: state, generation });

/** All allowed transitions. */
export const TRANSITIONS: Readonly<Record<AttachEvent, Readonly<Partial<Record<AttachState, Transition>>>>> = {
  add: {
    UNKNOWN: to("ATTACHING", "next"),
    DETACHED: to("ATTACHING", "next"),
    CLOSING: to("ATTACHING", "next"),
    ATTACHING: to("ATTACHING", "same"),
    ATTACHED: to("ATTACHED", "same"),
  },
  replacement_accepted: { ATTACHING: to("ATTACHING", "next"), ATTACHED: to("ATTACHING", "next") },
  attach_confirmed: { ATTACHING: to("ATTACHED", "same") },
  attach_failed: { ATTACHING: to("ATTACHING", "same") },
  registered_without: { ATTACHED: to("ATTACHING", "next") },
  refused: { ATTACHING: to("CLOSING", "next"), ATTACHED: to("CLOSING", "next") },
  remove: {
    ATTACHING: to("CLOSING", "next"),
    ATTACHED: to("CLOSING", "next"),
    CLOSING: to("CLOSING", "same"),
    DETACHED: to("DETACHED", "same"),
    UNKNOWN: to("UNKNOWN", "same"),
  },
  detach_confirmed: { CLOSING: to("DETACHED", "same") },
  removal_timeout: { CLOSING: to("DETACHED", "same") },
  purge: {
    UNKNOWN: to("UNKNOWN", "next"),
    ATTACHING: to("UNKNOWN", "next"),
    ATTACHED: to("UNKNOWN", "next"),
    CLOSING: to("UNKNOWN", "next"),
    DETACHED: to("UNKNOWN", "next"),
  },
};

export function transitionOf(state: AttachState, event: AttachEvent): Transition {
  const transition = TRANSITIONS[event][state];
  if (transition === undefined) throw new Error(`${event} cannot happen to a device that is ${state}`);
  return transition;
}

/**
 * Returns the device after the event; the caller stores it. A new generation resets attempts, error and confirmation of
 * the former order.
 */
export function advance(tx: RegistryTransaction, device: Device, event: AttachEvent, nowMs: number): Device {
  const transition = transitionOf(device.attachState, event);
  const moved =
    transition.to === device.attachState ? device : { ...device, attachState: transition.to, stateChangedAtMs: nowMs };
  if (transition.generation === "same") return moved;
  const { pending: _, ...rest } = moved;
  return { ...rest, generation: nextDeviceGeneration(tx), attempts: 0, lastError: "", detachConfirmed: false };
}

import type { DeviceId, Stamp } from "@diskmesh/domain";
import type { Waiting } from "../files/in-flight.js";
import type { Run } from "../model/runs.js";

/** Result of an order for one device, or for one run of it. */
export interface DeviceOutcome extends Partial<Run> {
  readonly deviceId: DeviceId;
  readonly outcome:
    | "done"
    | "already"
    | "pending"
    | "outdated"
    | "unknown_device"
    | "device_changed"
    | "io_error"
    | "not_attached"
    | "below_floor";
  readonly message: string;
  readonly stamp: Stamp;
  /** Set with `below_floor`: session number up to which the device refuses sessions that it does not remember. */
  readonly floor?: number;
  /** Set with `pending`: the cause of the wait. */
  readonly waiting?: Waiting;
}

export function isGranted({ outcome }: DeviceOutcome): boolean {
  return outcome === "done" || outcome === "already";
}

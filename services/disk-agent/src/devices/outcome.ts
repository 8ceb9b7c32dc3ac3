import type { DeviceId, Stamp } from "@diskmesh/domain";
import type { Waiting } from "./in-flight.js";

/** Result of an order for one device. */
export interface DeviceOutcome {
  readonly deviceId: DeviceId;
  readonly outcome:
    | "done"
    | "already"
    | "pending"
    | "outdated"
    | "unknown_device"
    | "device_changed"
    | "io_error"
    | "not_attached";
  readonly message: string;
  readonly stamp: Stamp;
  /** Set with `pending`: the cause of the wait. */
  readonly waiting?: Waiting;
}

export function isGranted({ outcome }: DeviceOutcome): boolean {
  return outcome === "done" || outcome === "already";
}

import type { DeviceId, Stamp } from "@diskmesh/domain";
import type { Waiting } from "./in-flight.js";

/** What an order came to for one device. */
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
  /** With `pending`: what is waited for. */
  readonly waiting?: Waiting;
}

export function isGranted({ outcome }: DeviceOutcome): boolean {
  return outcome === "done" || outcome === "already";
}

import type { DeviceId, Stamp } from "@diskmesh/domain";

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
}

import type { AttachState } from "@diskmesh/api/registry";
import { type HostId, parseHostId, parseOptionalName } from "@diskmesh/domain";
import type { Device } from "../model/store/schema.js";
import { attachStateOf } from "./wire.js";

/** Filter for devices. */
export interface DeviceFilter {
  /** Undefined for all hosts. */
  readonly hostId: HostId | undefined;
  readonly matches: (device: Device) => boolean;
}

export function parseDeviceFilter(request: { hostId: string; attachState: AttachState; pool: string }): DeviceFilter {
  const hostId = request.hostId === "" ? undefined : parseHostId(request.hostId);
  const state = attachStateOf(request.attachState);
  const pool = parseOptionalName("pool", request.pool);
  const matches = (device: Device): boolean =>
    (hostId === undefined || device.hostId === hostId) &&
    (state === undefined || device.attachState === state) &&
    (pool === undefined || device.pool === pool);
  return { hostId, matches };
}

import type { Device as DeviceMessage, Host as HostMessage } from "@diskmesh/api/registry";
import type { Context } from "../context.js";
import { removalTimesOutAtMs } from "../model/remove-action.js";
import { type FindSharers, sharersIn, whyRefused } from "../model/same-bytes.js";
import type { Device, Host, RegistryTables } from "../model/schema.js";
import { deviceMessage, hostMessage } from "./wire.js";

/** A device with everything that is known of it, the timers and progress that live in memory only included. */
export function describeDevice(
  { fleet, workers, config }: Pick<Context, "fleet" | "workers" | "config">,
  tables: RegistryTables,
  device: Device,
  findSharers: FindSharers = sharersIn(tables, config.serialNumbersOfMany),
): DeviceMessage {
  const host = tables.hosts.get(device.hostId);
  const inOperation = device.attachState === "ATTACHING" || device.attachState === "ATTACHED";
  const refused = inOperation ? undefined : whyRefused(findSharers, device);
  const removalTimesOut = device.attachState === "CLOSING" && host !== undefined;
  const described = device.lastError || refused === undefined ? device : { ...device, lastError: refused };
  return deviceMessage(described, fleet.leader(), {
    ...workers.progressOf(device),
    removalTimesOutAtMs: removalTimesOut ? removalTimesOutAtMs(host, config.unavailableRemovalTimeoutMs) : undefined,
  });
}

export function describeHost({ liveness, config }: Pick<Context, "liveness" | "config">, host: Host): HostMessage {
  return hostMessage(host, {
    lastHeardAtMs: liveness.lastHeardAtMs(host.hostId),
    removalTimesOutAtMs: removalTimesOutAtMs(host, config.unavailableRemovalTimeoutMs),
    isSuspected: liveness.whySuspected(host.hostId) !== undefined,
  });
}

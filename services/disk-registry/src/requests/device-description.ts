import type { Device as DeviceMessage, Host as HostMessage } from "@diskmesh/api/registry";
import type { Context } from "../context.js";
import { removalTimesOutAtMs } from "../model/remove-action.js";
import { type FindSharers, sharersIn, whyRefused } from "../model/same-bytes.js";
import type { Device, Host, RegistryTables } from "../model/schema.js";
import { deviceMessage, hostMessage } from "./wire.js";

/** A device with everything that is known of it, the timers and progress that live in memory only included. */
export function describeDevice(
  context: Pick<Context, "fleet" | "workers" | "config" | "clock" | "liveness">,
  tables: RegistryTables,
  device: Device,
  findSharers: FindSharers = sharersIn(tables, context.config.serialNumbersOfMany),
): DeviceMessage {
  const { fleet, workers } = context;
  const host = tables.hosts.get(device.hostId);
  const inOperation = device.attachState === "ATTACHING" || device.attachState === "ATTACHED";
  const refused = inOperation ? undefined : whyRefused(findSharers, device);
  const removalTimesOut = device.attachState === "CLOSING" && host !== undefined;
  const described = device.lastError || refused === undefined ? device : { ...device, lastError: refused };
  return deviceMessage(described, fleet.leader(), {
    ...workers.progressOf(device),
    removalTimesOutAtMs: removalTimesOut ? timesOutAtMs(context, host) : undefined,
  });
}

export function describeHost(context: Pick<Context, "liveness" | "config" | "clock">, host: Host): HostMessage {
  const { liveness } = context;
  return hostMessage(host, {
    lastHeardAtMs: liveness.lastHeardAtMs(host.hostId),
    removalTimesOutAtMs: timesOutAtMs(context, host),
    isSuspected: liveness.whySuspected(host.hostId) !== undefined,
  });
}

function timesOutAtMs(
  { clock, config, liveness }: Pick<Context, "liveness" | "config" | "clock">,
  host: Host,
): number | undefined {
  const time = { nowMs: clock.nowMs(), listenedMs: liveness.totalListenedMs };
  return removalTimesOutAtMs(host, config.unavailableRemovalTimeoutMs, time);
}

import { silentLogger } from "@diskmesh/domain";
import { systemClock } from "@diskmesh/service";
import type { DeviceAccess } from "../remote/device-access.js";
import { DeviceListener } from "../remote/device-listener.js";

/** Starts a listener that asks `access` anew for each holder, as after a restart of the machine. */
export function listenForHolders(access: () => DeviceAccess, maxInFlightBytes: number): Promise<DeviceListener> {
  return DeviceListener.start({
    access: {
      keyOf: (identity) => access().keyOf(identity),
      open: (identity, connection) => access().open(identity, connection),
      answer: (request) => access().answer(request),
    },
    host: "127.0.0.1",
    port: 0,
    limits: { maxInFlightRequests: 8, maxInFlightBytes, negotiationTimeoutMs: 60_000 },
    clock: systemClock,
    log: silentLogger,
  });
}

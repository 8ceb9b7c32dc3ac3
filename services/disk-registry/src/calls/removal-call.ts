import type { AddCall } from "../model/devices/add-action.js";
import type { RemovalCall } from "../model/hosts/remove-action.js";
import { removalLimits } from "../requests/limits.js";
import type { ChangeContext } from "./context.js";

/** What the model needs to add something beside its tables. */
export function addCall({ config, limits, clock }: ChangeContext): AddCall {
  const { waitingRetryAfterMs } = limits;
  return { nowMs: clock.nowMs(), waitingRetryAfterMs, shared: config.serialNumbersOfMany };
}

/** What the model needs for a removal beside its tables. */
export function removalCall(
  { config, limits, clock, liveness, workers }: ChangeContext,
  keepData: boolean,
): RemovalCall {
  const eraseState: RemovalCall["eraseState"] = (device) => workers.eraseState(device);
  return {
    keepData,
    limits: removalLimits({ config, limits }),
    eraseState,
    nowMs: clock.nowMs(),
    listenedMs: liveness.totalListenedMs,
  };
}

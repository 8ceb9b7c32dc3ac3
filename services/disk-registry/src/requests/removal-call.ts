import type { ChangeContext } from "../context.js";
import type { AddCall } from "../model/add-action.js";
import type { RemovalCall } from "../model/remove-action.js";
import { removalLimits } from "./limits.js";

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

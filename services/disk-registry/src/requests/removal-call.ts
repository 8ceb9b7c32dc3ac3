import type { ChangeContext } from "../context.js";
import type { AddCall } from "../model/add-action.js";
import type { RemovalCall } from "../model/remove-action.js";
import { removalLimits } from "./limits.js";

/** What the model needs to add something beside its tables. */
export function addCall({ config, clock }: ChangeContext): AddCall {
  const { retryAfter, serialNumbersOfMany: shared } = config;
  return { nowMs: clock.nowMs(), waitingRetryAfterMs: retryAfter.waitingMs, shared };
}

/** What the model needs for a removal beside its tables. */
export function removalCall({ config, clock, liveness, workers }: ChangeContext, keepData: boolean): RemovalCall {
  const eraseState: RemovalCall["eraseState"] = (device) => workers.eraseState(device);
  return {
    keepData,
    limits: removalLimits(config),
    eraseState,
    nowMs: clock.nowMs(),
    listenedMs: liveness.totalListenedMs,
  };
}

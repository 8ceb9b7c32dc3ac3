import type { AddCall } from "../model/hosts/add-action.js";
import type { RemovalCall } from "../model/hosts/remove-action.js";
import { removalLimits, sliceSizes } from "../requests/limits.js";
import type { ChangeContext } from "./context.js";

/** Returns the inputs of an addition that are not in the tables. */
export function addCall(
  { config, limits, clock }: Pick<ChangeContext, "config" | "limits" | "clock">,
  { sliceBytes, eraseForeign }: { readonly sliceBytes: number; readonly eraseForeign: boolean } = {
    sliceBytes: 0,
    eraseForeign: false,
  },
): AddCall {
  const { waitingRetryAfterMs } = limits;
  return {
    nowMs: clock.nowMs(),
    waitingRetryAfterMs,
    shared: config.serialNumbersOfMany,
    eraseForeign,
    sliceBytes: sliceBytes === 0 ? undefined : sliceBytes,
    sliceSizes: sliceSizes(config),
  };
}

/** Returns the inputs of a removal that are not in the tables. */
export function removalCall(
  { config, limits, clock, liveness, workers }: ChangeContext,
  keepData: boolean,
): RemovalCall {
  const eraseState: RemovalCall["eraseState"] = (device) => workers.eraseState(device);
  return {
    keepData,
    limits: removalLimits({ config, limits }),
    eraseState,
    moveProgressOf: (diskId) => workers.moveProgressOf(diskId),
    nowMs: clock.nowMs(),
    listenedMs: liveness.totalListenedMs,
  };
}

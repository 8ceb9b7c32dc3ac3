import type { ConfirmDeviceRequest, ConfirmDeviceResponse } from "@diskmesh/api/registry";
import type { ChangeContext } from "../../calls/context.js";
import { runAction } from "../../calls/run-action.js";
import { namedDevices } from "../../model/devices/device-selection.js";
import * as model from "../../model/hosts/confirm-action.js";
import { parseDeviceSelector } from "../../requests/requests.js";

export async function confirmDevice(
  context: ChangeContext,
  request: ConfirmDeviceRequest,
): Promise<ConfirmDeviceResponse> {
  const selector = parseDeviceSelector(request);
  const { clock, config, log, doing } = context;
  const call = { nowMs: clock.nowMs(), shared: config.serialNumbersOfMany };
  const result = await runAction(
    context,
    request.dryRun,
    (tx) => model.confirmDevice(tx, selector, call),
    (tables) => namedDevices(tables, selector),
  );
  if (!request.dryRun)
    log.warn({ ...selector, by: doing.user, answer: result.code }, "devices confirmed by an operator");
  return { result };
}

import type { AdoptDeviceRequest, AdoptDeviceResponse } from "@diskmesh/api/registry";
import type { ChangeContext } from "../../calls/context.js";
import { runAction } from "../../calls/run-action.js";
import { namedDevices } from "../../model/devices/device-selection.js";
import * as model from "../../model/hosts/adopt-action.js";
import { parseDeviceSelector } from "../../requests/requests.js";

export async function adoptDevice(context: ChangeContext, request: AdoptDeviceRequest): Promise<AdoptDeviceResponse> {
  const selector = parseDeviceSelector({ ...request, path: "" });
  const { clock, config, log, doing } = context;
  const call = { nowMs: clock.nowMs(), shared: config.serialNumbersOfMany };
  const result = await runAction(
    context,
    request.dryRun,
    (tx) => model.adoptDevice(tx, selector, call),
    (tables) => namedDevices(tables, selector),
  );
  if (!request.dryRun) log.warn({ ...selector, by: doing.user, answer: result.code }, "drive adopted by an operator");
  return { result };
}

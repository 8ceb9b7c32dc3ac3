import { Health, type SetDeviceStateRequest, type SetDeviceStateResponse } from "@diskmesh/api/registry";
import { InvalidArgumentError, parseDeviceId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { ChangeContext } from "../../calls/context.js";
import { transactUnlessDry } from "../../calls/run-action.js";
import { sayOfDevices } from "../../model/devices/device-health.js";
import { disksOn } from "../../model/store/runs.js";
import { parseReason, requireAtMost, requireUnique, saidBy } from "../../requests/requests.js";
import { healthOf } from "../../requests/wire.js";

const MAX_DEVICES = 1_000;

export async function setDeviceState(
  { tablet, limits, clock, log, workers, doing }: ChangeContext,
  request: SetDeviceStateRequest,
  call: CallContext,
): Promise<SetDeviceStateResponse> {
  if (request.health === Health.UNSPECIFIED)
    throw new InvalidArgumentError("health is missing: give the health of the devices", { about: { field: "health" } });
  const health = healthOf(request.health, "health");
  const reason = parseReason(request.reason, limits.maxTextLength);
  if (health !== "ONLINE" && reason === "")
    throw new InvalidArgumentError("reason is empty: give the reason", {
      about: { field: "reason" },
    });
  requireAtMost("device_ids", request.deviceIds, MAX_DEVICES);
  requireUnique("device_ids", request.deviceIds);
  if (request.deviceIds.length === 0)
    throw new InvalidArgumentError("device_ids is empty: name the devices", { about: { field: "device_ids" } });
  const deviceIds = request.deviceIds.map((deviceId) => parseDeviceId(deviceId, "device_ids"));
  doing.message = reason === "" ? health : `${health}: ${reason}`;
  const word = { by: saidBy(call), atMs: clock.nowMs(), reason };
  const changed = await transactUnlessDry(tablet, request.dryRun, (tx) => sayOfDevices(tx, deviceIds, health, word));
  const changedDeviceIds = changed.map(({ deviceId }) => deviceId);
  if (!request.dryRun && changed.length > 0) {
    log.warn(
      { deviceIds: changedDeviceIds, by: word.by, reason },
      `device health overridden by an operator: ${health}`,
    );
    workers.wakeDevices(changed);
  }
  return { changedDeviceIds, diskIds: [...disksOn(changed)] };
}

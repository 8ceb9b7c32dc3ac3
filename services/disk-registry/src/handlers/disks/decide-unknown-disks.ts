import {
  type DecideUnknownDisksRequest,
  type DecideUnknownDisksResponse,
  UnknownDiskVerdict as Verdict,
} from "@diskmesh/api/registry";
import { type DeviceId, InvalidArgumentError, parseDeviceId, parseHostId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { transactUnlessDry } from "../../calls/run-action.js";
import { noDevice } from "../../model/devices/device-selection.js";
import { moveAway } from "../../model/disks/removal-moves.js";
import { type Decided, decideUnknown, type UnknownDiskVerdict } from "../../model/hosts/decide-unknown.js";
import type { RegistryTables } from "../../model/store/schema.js";
import { requireAtMost, requireUnique } from "../../requests/requests.js";

export async function decideUnknownDisks(
  { tablet, workers, limits, clock, unknownExports }: ChangeContext,
  request: DecideUnknownDisksRequest,
): Promise<DecideUnknownDisksResponse> {
  const verdict = parseVerdict(request.verdict);
  requireAtMost("device_ids", request.deviceIds, limits.maxDevicesPerHost);
  requireUnique("device_ids", request.deviceIds);
  if ((request.deviceIds.length === 0) === (request.hostId === ""))
    throw new InvalidArgumentError("give either device_ids or host_id", { about: { field: "device_ids" } });
  const deviceIds = request.deviceIds.map((deviceId) => parseDeviceId(deviceId, "device_ids"));
  const hostId = request.hostId === "" ? undefined : parseHostId(request.hostId);
  const decide = (tables: RegistryTables) =>
    hostId === undefined
      ? knownDevices(tables, deviceIds)
      : [...tables.devices.by("unknownByHost", hostId)].map((device) => device.deviceId);
  const { decided, devices } = await transactUnlessDry(tablet, request.dryRun, (tx) => {
    const decided = decideUnknown(tx, decide(tx), verdict);
    const devices = decided.deviceIds.flatMap((deviceId) => tx.devices.get(deviceId) ?? []);
    // A device that is to be removed may have become a disk's.
    moveAway(
      tx,
      devices.filter((device) => device.removalRequested),
      clock.nowMs(),
    );
    return { decided, devices };
  });
  if (request.dryRun) return answerOf(decided);
  workers.wakeDevices(devices);
  for (const diskId of decided.diskIds) workers.wakeDisk(diskId);
  for (const [hostId, exports] of unknownExports)
    for (const entry of exports)
      if (decided.endedDiskIds.includes(entry.diskId)) workers.wakeUnexport({ hostId, ...entry });
  return answerOf(decided);
}

function knownDevices(tables: RegistryTables, deviceIds: readonly DeviceId[]): readonly DeviceId[] {
  const unknown = deviceIds.find((deviceId) => tables.devices.get(deviceId) === undefined);
  if (unknown !== undefined) throw noDevice(tables, unknown);
  return deviceIds;
}

function parseVerdict(verdict: Verdict): UnknownDiskVerdict {
  if (verdict === Verdict.REGISTRY) return "registry";
  if (verdict === Verdict.AGENT) return "agent";
  throw new InvalidArgumentError("verdict is missing: give REGISTRY or AGENT, whichever is right", {
    about: { field: "verdict" },
  });
}

function answerOf({ deviceIds, diskIds }: Decided): DecideUnknownDisksResponse {
  return { deviceIds: [...deviceIds], diskIds: [...diskIds] };
}

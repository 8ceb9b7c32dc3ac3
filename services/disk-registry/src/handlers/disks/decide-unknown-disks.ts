import {
  type DecideUnknownDisksRequest,
  type DecideUnknownDisksResponse,
  UnknownDiskVerdict as Verdict,
} from "@diskmesh/api/registry";
import { type DeviceId, InvalidArgumentError, parseDeviceId, parseHostId } from "@diskmesh/domain";
import type { ChangeContext } from "../../calls/context.js";
import { transactUnlessDry } from "../../calls/run-action.js";
import { noDevice } from "../../model/devices/device-selection.js";
import { type Decided, decideUnknown, type UnknownDiskVerdict } from "../../model/devices/unknown-disks.js";
import type { Device, RegistryTables } from "../../model/store/schema.js";
import { requireAtMost, requireUnique } from "../../requests/requests.js";

export async function decideUnknownDisks(
  { tablet, workers, limits, unknownExports }: ChangeContext,
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
    hostId === undefined ? namedDevices(tables, deviceIds) : [...tables.devices.by("unknownByHost", hostId)];
  const { decided, devices } = await transactUnlessDry(tablet, request.dryRun, (tx) => {
    const decided = decideUnknown(tx, decide(tx), verdict);
    return { decided, devices: decided.deviceIds.flatMap((deviceId) => tx.devices.get(deviceId) ?? []) };
  });
  if (request.dryRun) return answerOf(decided);
  workers.wakeDevices(devices);
  for (const diskId of decided.diskIds) workers.wakeDisk(diskId);
  for (const [hostId, exports] of unknownExports)
    for (const entry of exports)
      if (decided.endedDiskIds.includes(entry.diskId)) workers.wakeUnexport({ hostId, ...entry });
  return answerOf(decided);
}

function namedDevices(tables: RegistryTables, deviceIds: readonly DeviceId[]): readonly Device[] {
  return deviceIds.map((deviceId) => {
    const device = tables.devices.get(deviceId);
    if (device !== undefined) return device;
    throw noDevice(tables, deviceId);
  });
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

import type { HeartbeatRequest, HeartbeatResponse } from "@diskmesh/api/internal";
import type { DiskIo } from "@diskmesh/api/registry";
import { parseDeviceId, parseDiskId, parseHostId, parseId } from "@diskmesh/domain";
import { type CallContext, msOfDuration } from "@diskmesh/rpc";
import type { ReportedIo } from "../../agents/io-meter.js";
import { requireOwnHost } from "../../calls/agent-identity.js";
import type { Context } from "../../calls/context.js";
import { metAtMs } from "../../model/devices/device-health.js";
import { areOtherProblems, type DiskProblem, noteProblems } from "../../model/disks/disk-problems.js";
import type { OwnWork } from "../../model/events/events.js";
import { clockNeed, type MissingNeed } from "../../model/hosts/agent-needs.js";
import {
  applyHeartbeat,
  type DeviceHealth,
  type HardwareFailure,
  requireObeyed,
  requireRegistered,
} from "../../model/hosts/heartbeats.js";
import { rememberedOf } from "../../requests/registration-request.js";
import { plainText, requireAtMost } from "../../requests/requests.js";
import { healthOf } from "../../requests/wire.js";

/** Maximum number of needs; agents have fewer. */
const HEARTBEAT: OwnWork = { work: "a heartbeat" };
const MAX_NEEDS = 16;

export async function heartbeat(
  context: Context,
  request: HeartbeatRequest,
  call: CallContext,
): Promise<HeartbeatResponse> {
  const { tablet, liveness, ioMeter, fleet, clock, config, limits, workers } = context;
  const heardAtMs = clock.nowMs();
  const hostId = parseHostId(request.hostId);
  requireOwnHost(context, call, hostId);
  const bootId = parseId("boot_id", request.bootId);
  requireAtMost("changed", request.changed, limits.maxDevicesPerHost);
  const changed = request.changed.map(
    (entry): DeviceHealth => ({
      deviceId: parseDeviceId(entry.deviceId),
      health: healthOf(entry.health, "health"),
      healthMessage: plainText(entry.healthMessage, limits.maxTextLength),
    }),
  );
  requireAtMost("hardware_errors", request.hardwareErrors, limits.maxDevicesPerHost);
  const failed = request.hardwareErrors.map(
    ({ deviceId, message, ageMs }): HardwareFailure => ({
      deviceId: parseDeviceId(deviceId),
      message: plainText(message, limits.maxTextLength),
      metAtMs: metAtMs(ageMs, heardAtMs),
    }),
  );
  requireAtMost("disks", request.disks, limits.maxExportsPerHost);
  const disks = new Map(
    request.disks.flatMap(({ diskId, io }) =>
      io ? [[parseDiskId(diskId), reportedIo(io, heardAtMs, limits)] as const] : [],
    ),
  );
  const remembered = rememberedOf(request);
  await fleet.hear(hostId, bootId, remembered);
  requireObeyed(fleet.leader(), hostId, remembered);
  const problems = diskProblemsOf(request, heardAtMs, limits);
  const { host, hasOtherProblems } = await tablet.read((tables) => ({
    host: requireRegistered(tables, hostId, bootId),
    hasOtherProblems: areOtherProblems(tables, hostId, problems),
  }));
  if (liveness.hear(hostId, missingNeedsOf(request, heardAtMs, limits))) context.tableChanges.hosts.touch([hostId]);
  if (request.io !== undefined) {
    const seenOtherwise = ioMeter.hear(hostId, bootId, request.io, disks);
    if (seenOtherwise.length > 0) context.tableChanges.disks.touch(seenOtherwise);
  }
  // Fast path: most heartbeats change nothing and cause no transaction.
  const warning = plainText(request.warning, limits.maxTextLength);
  const isWarned = (host.agentWarning ?? "") !== warning;
  const isChanged = changed.length > 0 || failed.length > 0 || isWarned || hasOtherProblems;
  if (host.state === "UNAVAILABLE" || isChanged) {
    const { probationMs } = config.heartbeat;
    await tablet.transact((tx) => {
      applyHeartbeat(tx, hostId, bootId, { changed, failed, warning }, clock.nowMs(), probationMs);
      noteProblems(tx, hostId, problems);
    }, HEARTBEAT);
    workers.wakeHost(hostId);
  }
  const { tabletGeneration, incarnation } = fleet.leader();
  return { tabletGeneration, incarnation };
}

function reportedIo(io: DiskIo, heardAtMs: number, { maxTextLength }: Context["limits"]): ReportedIo {
  const { openRequests: requests, oldestRequestAge, throttledRequests: throttled, waitsForDeviceId } = io;
  const waitsForDevice = waitsForDeviceId === "" ? undefined : parseDeviceId(waitsForDeviceId);
  const waitsForBlockDevice = plainText(io.waitsForBlockDevice, maxTextLength);
  const [engine, engineReason] = [io.engine, io.engineReason].map((text) => plainText(text, maxTextLength));
  const parsed = { ...io, waitsForBlockDevice, engine: engine ?? "", engineReason: engineReason ?? "" };
  if (requests <= 0) return { io: parsed };
  const oldestAtMs = metAtMs(msOfDuration(oldestRequestAge), heardAtMs);
  return { io: parsed, open: { requests, oldestAtMs, heardAtMs, throttled, waitsForDevice, waitsForBlockDevice } };
}

function diskProblemsOf(
  { diskProblems }: HeartbeatRequest,
  heardAtMs: number,
  { maxTextLength, maxExportsPerHost }: Context["limits"],
): DiskProblem[] {
  requireAtMost("disk_problems", diskProblems, maxExportsPerHost);
  return diskProblems.map(({ diskId, sessionNumber, message, ageMs }) => ({
    diskId: parseDiskId(diskId),
    sessionNumber,
    message: plainText(message, maxTextLength),
    sinceMs: metAtMs(ageMs, heardAtMs),
  }));
}

function missingNeedsOf(
  { missingNeeds, sentAt }: HeartbeatRequest,
  heardAtMs: number,
  { maxTextLength }: Context["limits"],
): MissingNeed[] {
  requireAtMost("missing_needs", missingNeeds, MAX_NEEDS);
  const clock = sentAt && clockNeed(sentAt.getTime(), heardAtMs, (timeMs) => new Date(timeMs).toISOString());
  const needs = missingNeeds.map(({ need, why, ageMs, isAlert }) => ({
    need: plainText(need, maxTextLength),
    why: plainText(why, maxTextLength),
    sinceMs: metAtMs(ageMs, heardAtMs),
    isAlert,
  }));
  return clock === undefined ? needs : [...needs, clock];
}

import { createHash } from "node:crypto";
import type { RegisterAgentRequest, RememberedRun } from "@diskmesh/api/internal";
import { AbortedError, type DeviceId, type HostId, parseDiskId, ResourceExhaustedError } from "@diskmesh/domain";
import type { RegistryLimits } from "../config/limits.js";
import { type RunSession, sessionsOn } from "../model/devices/remembered-runs.js";
import type { ReportedDevice } from "../model/devices/reported-devices.js";
import type { RememberedRange } from "../model/devices/unknown-disks.js";
import type { Registration } from "../model/hosts/registration.js";
import type { RegistryTables } from "../model/store/schema.js";
import { type ByteRange, MAX_RUNS_OF_DEVICE } from "../model/store/slices.js";
import { parseCount, parseCounterValue } from "../requests/requests.js";
import type { RegistryTablet } from "../store/stored-schema.js";
import type { AgentClients } from "./agent-clients.js";

/** Runs that an agent may remember of one device. What is left of former runs counts, too. */
const MAX_REMEMBERED_RUNS = 8 * MAX_RUNS_OF_DEVICE;

interface Context {
  readonly tablet: RegistryTablet;
  readonly agents: AgentClients;
  readonly limits: Pick<RegistryLimits, "agentTimeoutMs">;
}

type Numbered = ByteRange & { readonly sessionNumber: number; readonly diskId: string };

/** A registration with the ranges of the remembered sessions, which hold while `requireUnchanged` throws nothing. */
interface WithRanges {
  readonly registration: Registration;
  /**
   * Throws AbortedError when this registry's own sessions have changed since the ranges were compared with them: a
   * session that an erase has ended meanwhile would be taken for an unknown one. The agent registers again.
   */
  readonly requireUnchanged: (tables: RegistryTables) => void;
}

/**
 * Returns the registration with the ranges of the remembered sessions. Of a device whose digest is not the one of this
 * registry's own sessions, the ranges are read from the agent, so that nothing is placed or granted on a device before
 * its sessions are known.
 */
export async function withRanges(
  { tablet, agents, limits }: Context,
  request: Pick<RegisterAgentRequest, "devices">,
  registration: Registration,
): Promise<WithRanges> {
  const { hostId } = registration;
  const digests = new Map<string, string>(request.devices.map((device) => [device.deviceId, device.runsDigest]));
  const found = await tablet.read((tables) =>
    registration.devices.map((device): Found => {
      const digest = digests.get(device.deviceId) ?? "";
      // A session of all bytes needs no range, nor does one of an agent that knows no ranges.
      const { sessionNumber, sessionDiskId: diskId = "" } = device;
      const whole = { offsetBytes: 0, sizeBytes: 0, sessionNumber, diskId };
      if (digest === "" || digest === digestOf([whole])) return { device, ranges: undefined };
      if (digest === EMPTY_DIGEST) return { device, ranges: [] };
      const own = ownSessions(tables, hostId, device.deviceId);
      const ownDigest = digestOf(own);
      return { device, ranges: digest === ownDigest ? own.map(rangeOf) : "unread", ownDigest };
    }),
  );
  const devices: ReportedDevice[] = [];
  for (const { device, ranges } of found) {
    const read = ranges === "unread" ? await readRanges(device.deviceId) : ranges;
    devices.push(read === undefined ? device : { ...device, ranges: read });
  }
  const compared = found.filter(({ ownDigest }) => ownDigest !== undefined);
  return {
    registration: { ...registration, devices },
    requireUnchanged: (tables) => {
      for (const { device, ownDigest } of compared)
        if (digestOf(ownSessions(tables, hostId, device.deviceId)) !== ownDigest)
          throw new AbortedError(
            `the runs of device ${device.deviceId} changed while its agent registered: register again`,
          );
    },
  };

  async function readRanges(deviceId: DeviceId): Promise<readonly RememberedRange[]> {
    const runs: RememberedRun[] = [];
    for (let fromBytes = 0; ; ) {
      const page = await agents.listRuns(registration, { deviceId, fromOffsetBytes: fromBytes }, limits.agentTimeoutMs);
      runs.push(...page.runs);
      if (runs.length > MAX_REMEMBERED_RUNS)
        throw new ResourceExhaustedError(
          `the agent of host ${registration.hostId} remembers more than ${MAX_REMEMBERED_RUNS} runs of device ${deviceId}`,
          { about: { host_id: registration.hostId, device_id: deviceId } },
        );
      if (page.nextOffsetBytes <= fromBytes) return runs.map(parseRun);
      fromBytes = page.nextOffsetBytes;
    }
  }
}

interface Found {
  readonly device: ReportedDevice;
  readonly ranges: readonly RememberedRange[] | "unread" | undefined;
  /** Digest with which the device's was compared; absent without a comparison. */
  readonly ownDigest?: string;
}

function ownSessions(tables: RegistryTables, hostId: HostId, deviceId: DeviceId): readonly RunSession[] {
  const known = tables.devices.get(deviceId);
  return known?.hostId === hostId ? sessionsOn(tables, known) : [];
}

function parseRun({ offsetBytes, sizeBytes, sessionNumber, diskId }: RememberedRun): RememberedRange {
  return rangeOf({
    offsetBytes: parseCount("offset_bytes", offsetBytes),
    sizeBytes: parseCount("size_bytes", sizeBytes),
    sessionNumber: parseCounterValue("session_number", sessionNumber),
    diskId: diskId === "" ? "" : parseDiskId(diskId),
  });
}

/** Returns the range with its size, which an agent leaves out for all bytes up to the device's end. */
function rangeOf({ offsetBytes, sizeBytes, sessionNumber, diskId }: RememberedRange): RememberedRange {
  return { offsetBytes, sizeBytes: sizeBytes || Number.MAX_SAFE_INTEGER - offsetBytes, sessionNumber, diskId };
}

/** Returns the digest of runs, as in `ReportedDevice.runs_digest`. */
function digestOf(runs: readonly Numbered[]): string {
  const lines = runs.map(
    ({ offsetBytes, sizeBytes, sessionNumber, diskId }) => `${offsetBytes} ${sizeBytes} ${sessionNumber} ${diskId}\n`,
  );
  return createHash("sha256").update(lines.join("")).digest("hex");
}

const EMPTY_DIGEST = digestOf([]);

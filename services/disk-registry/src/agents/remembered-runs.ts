import { createHash } from "node:crypto";
import type { RegisterAgentRequest, RememberedRun } from "@diskmesh/api/internal";
import { type DeviceId, parseDiskId, ResourceExhaustedError } from "@diskmesh/domain";
import type { RegistryLimits } from "../config/limits.js";
import { sessionsOn } from "../model/devices/remembered-runs.js";
import type { ReportedDevice } from "../model/devices/reported-devices.js";
import type { RememberedRange } from "../model/devices/unknown-disks.js";
import type { Registration } from "../model/hosts/registration.js";
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

/**
 * Returns the registration with the ranges of the remembered sessions. Of a device whose digest is not the one of this
 * registry's own sessions, the ranges are read from the agent, so that nothing is placed or granted on a device before
 * its sessions are known.
 */
export async function withRanges(
  { tablet, agents, limits }: Context,
  request: Pick<RegisterAgentRequest, "devices">,
  registration: Registration,
): Promise<Registration> {
  const digests = new Map<string, string>(request.devices.map((device) => [device.deviceId, device.runsDigest]));
  const found = await tablet.read((tables) =>
    registration.devices.map((device): Found => {
      const digest = digests.get(device.deviceId) ?? "";
      // A session of all bytes needs no range, nor does one of an agent that knows no ranges.
      const { sessionNumber, sessionDiskId: diskId = "" } = device;
      const whole = { offsetBytes: 0, sizeBytes: 0, sessionNumber, diskId };
      if (digest === "" || digest === digestOf([whole])) return { device, ranges: undefined };
      if (digest === EMPTY_DIGEST) return { device, ranges: [] };
      const known = tables.devices.get(device.deviceId);
      const own = known?.hostId === registration.hostId ? sessionsOn(tables, known) : [];
      return { device, ranges: digest === digestOf(own) ? own.map(rangeOf) : "unread" };
    }),
  );
  const devices: ReportedDevice[] = [];
  for (const { device, ranges } of found) {
    const read = ranges === "unread" ? await readRanges(device.deviceId) : ranges;
    devices.push(read === undefined ? device : { ...device, ranges: read });
  }
  return { ...registration, devices };

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

import { HostState, type SetHostStateRequest, type SetHostStateResponse } from "@diskmesh/api/registry";
import { InvalidArgumentError, parseHostId } from "@diskmesh/domain";
import { type CallContext, msOfDuration } from "@diskmesh/rpc";
import type { ChangeContext } from "../../calls/context.js";
import { transactUnlessDry } from "../../calls/run-action.js";
import { type HostWord, sayOfHosts, type Touched } from "../../model/hosts/host-words.js";
import { parseReason, requireAtMost, requireUnique, saidBy } from "../../requests/requests.js";

const MAX_HOSTS = 1_000;
const MIN_MAINTENANCE_MS = 1_000;
const MAX_MAINTENANCE_MS = 7 * 24 * 3_600_000;

export async function setHostState(
  { tablet, limits, clock, log, workers, doing }: ChangeContext,
  request: SetHostStateRequest,
  call: CallContext,
): Promise<SetHostStateResponse> {
  const word = parseWord(request.state);
  const reason = parseReason(request.reason, limits.maxTextLength);
  if (word !== "back" && reason === "")
    throw new InvalidArgumentError(`reason is empty: give the reason why the hosts are ${word}`, {
      about: { field: "reason" },
    });
  requireAtMost("host_ids", request.hostIds, MAX_HOSTS);
  requireUnique("host_ids", request.hostIds);
  if (request.hostIds.length === 0)
    throw new InvalidArgumentError("host_ids is empty: name the hosts", { about: { field: "host_ids" } });
  const hostIds = request.hostIds.map((hostId) => parseHostId(hostId, "host_ids"));
  doing.message = reason === "" ? word : `${word}: ${reason}`;
  const nowMs = clock.nowMs();
  const until = word === "maintenance" ? { untilMs: nowMs + parseDuration(request) } : {};
  if (word !== "maintenance" && request.duration !== undefined)
    throw new InvalidArgumentError("duration is set: only HOST_STATE_MAINTENANCE has one", {
      about: { field: "duration" },
    });
  const said = { by: saidBy(call), atMs: nowMs, reason, ...until };
  const touched = await transactUnlessDry(tablet, request.dryRun, (tx) =>
    sayOfHosts(tx, hostIds, word, said, request.fence),
  );
  if (!request.dryRun && touched.hostIds.length > 0) {
    log.warn({ hostIds: touched.hostIds, by: said.by, reason }, `host state overridden by an operator: ${word}`);
    for (const hostId of touched.hostIds) workers.wakeHost(hostId);
  }
  if (!request.dryRun) workers.wakeFences(touched.fencedDiskIds);
  return answerOf(touched);
}

function parseWord(state: HostState): HostWord {
  if (state === HostState.DEAD) return "dead";
  if (state === HostState.CORDONED) return "cordoned";
  if (state === HostState.MAINTENANCE) return "maintenance";
  if (state === HostState.ONLINE) return "back";
  throw new InvalidArgumentError(
    "state must be HOST_STATE_DEAD, HOST_STATE_CORDONED or HOST_STATE_MAINTENANCE, or HOST_STATE_ONLINE to revoke all of them",
    {
      about: { field: "state" },
    },
  );
}

/** Returns the longest time of a maintenance in ms. */
function parseDuration({ duration }: SetHostStateRequest): number {
  const durationMs = msOfDuration(duration);
  if (durationMs >= MIN_MAINTENANCE_MS && durationMs <= MAX_MAINTENANCE_MS) return durationMs;
  const given = duration === undefined ? "missing" : `${durationMs / 1_000} s`;
  throw new InvalidArgumentError(`duration is ${given}: give from 1 s to 7 days`, { about: { field: "duration" } });
}

function answerOf({
  hostIds,
  devices,
  heldDiskIds,
  servedDiskIds,
  vmCids,
  fencedDiskIds,
}: Touched): SetHostStateResponse {
  return {
    changedHostIds: [...hostIds],
    devices,
    disksOnDevices: heldDiskIds.length,
    publications: servedDiskIds.length,
    vms: vmCids.length,
    fences: fencedDiskIds.length,
  };
}

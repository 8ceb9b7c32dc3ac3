import { HostState, type SetHostStateRequest, type SetHostStateResponse } from "@diskmesh/api/registry";
import { InvalidArgumentError, parseHostId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { ChangeContext } from "../../calls/context.js";
import { transactUnlessDry } from "../../calls/run-action.js";
import { type HostWord, sayOfHosts, type Touched } from "../../model/hosts/host-words.js";
import { parseReason, requireAtMost, requireUnique, saidBy } from "../../requests/requests.js";

const MAX_HOSTS = 1_000;

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
  const said = { by: saidBy(call), atMs: clock.nowMs(), reason };
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
  if (state === HostState.ONLINE) return "back";
  throw new InvalidArgumentError(
    "state must be HOST_STATE_DEAD or HOST_STATE_CORDONED, or HOST_STATE_ONLINE to revoke both",
    {
      about: { field: "state" },
    },
  );
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

import type { ListRunsRequest, ListRunsResponse } from "@diskmesh/api/internal";
import { parseDeviceId } from "@diskmesh/domain";
import type { AgentContext } from "../calls/context.js";
import { encodeRun, parseOffset } from "../calls/wire.js";

const MAX_PAGE = 10_000;

export async function listRuns(
  { bootId, devices, ledger }: AgentContext,
  request: ListRunsRequest,
): Promise<ListRunsResponse> {
  const { id } = devices.get(parseDeviceId(request.deviceId));
  const fromBytes = parseOffset(request.fromOffsetBytes);
  // The agent's next life must not forget what the registry has been told.
  const { sessions = [], floor = 0 } = (await ledger.durable()).devices.get(id) ?? {};
  const rest = sessions.filter(({ offsetBytes }) => offsetBytes >= fromBytes);
  const size = request.pageSize > 0 ? Math.min(request.pageSize, MAX_PAGE) : MAX_PAGE;
  return { bootId, runs: rest.slice(0, size).map(encodeRun), nextOffsetBytes: rest[size]?.offsetBytes ?? 0, floor };
}

import type { OpenSessionRequest, OpenSessionResponse } from "@diskmesh/api/internal";
import { parseDiskId, parseHostId } from "@diskmesh/domain";
import { acceptFrom } from "../calls/accept-request.js";
import type { AgentContext } from "../calls/context.js";
import {
  atLeast,
  encodeOutcome,
  parseLeaderStamp,
  parseRuns,
  parseSessionKey,
  parseSessionNumber,
} from "../calls/wire.js";
import { isGranted } from "../devices/outcome.js";

export async function openSession(context: AgentContext, request: OpenSessionRequest): Promise<OpenSessionResponse> {
  const { config, limits, orders, holders } = context;
  const stamp = parseLeaderStamp(request.stamp);
  const runs = parseRuns(request, limits.maxDevicesPerOrder);
  const number = parseSessionNumber(request.sessionNumber);
  const diskId = parseDiskId(request.diskId);
  const holderHostId = request.holderHostId === "" ? "" : parseHostId(request.holderHostId, "holder_host_id");
  const isElsewhere = holderHostId !== "" && holderHostId !== config.hostId;
  const key = isElsewhere ? { sessionKey: parseSessionKey("session_key", request.sessionKey) } : {};
  const formerNumber = atLeast("former_session_number", request.formerSessionNumber, 0);
  acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  const blockAddress = isElsewhere ? holders.address() : "";
  const wish = { number, purpose: "disk" as const, diskId, holderHostId, ...key };
  const outcomes = await orders.sessions.open(runs, wish, stamp, { formerNumber });
  return { outcomes: outcomes.map((outcome) => encodeOutcome(outcome, isGranted(outcome) ? blockAddress : "")) };
}

import type { CloseSessionRequest, CloseSessionResponse } from "@diskmesh/api/internal";
import { acceptFrom } from "../calls/accept-request.js";
import type { AgentContext } from "../calls/context.js";
import { encodeOutcome, parseLeaderStamp, parseRuns, parseSessionNumber } from "../calls/wire.js";

export async function closeSession(context: AgentContext, request: CloseSessionRequest): Promise<CloseSessionResponse> {
  const stamp = parseLeaderStamp(request.stamp);
  const runs = parseRuns(request, context.limits.maxDevicesPerOrder);
  const sessionNumber = parseSessionNumber(request.sessionNumber);
  acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  const outcomes = await context.orders.sessions.close(runs, sessionNumber, stamp);
  return { outcomes: outcomes.map((outcome) => encodeOutcome(outcome)) };
}

import type { CloseSessionRequest, CloseSessionResponse } from "@diskmesh/api/internal";
import { acceptFrom } from "../accept-request.js";
import type { AgentContext } from "../context.js";
import { encodeOutcome, parseDeviceIds, parseLeaderStamp, parseSessionNumber } from "../wire.js";

export async function closeSession(context: AgentContext, request: CloseSessionRequest): Promise<CloseSessionResponse> {
  const stamp = parseLeaderStamp(request.stamp);
  const deviceIds = parseDeviceIds(request.deviceIds, context.limits.maxDevicesPerOrder);
  const sessionNumber = parseSessionNumber(request.sessionNumber);
  acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  const outcomes = await context.sessions.close(deviceIds, sessionNumber, stamp);
  return { outcomes: outcomes.map((outcome) => encodeOutcome(outcome)) };
}

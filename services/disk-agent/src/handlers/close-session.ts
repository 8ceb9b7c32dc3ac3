import type { DiskAgentServiceService } from "@diskmesh/api/agent";
import type { Handlers } from "@diskmesh/rpc";
import { acceptFrom } from "../accept-request.js";
import type { AgentContext } from "../context.js";
import { encodeOutcome, parseDeviceIds, parseLeaderStamp, parseSessionNumber } from "../wire.js";

export function closeSession(context: AgentContext): Handlers<typeof DiskAgentServiceService>["closeSession"] {
  return async (request) => {
    const stamp = parseLeaderStamp(request.stamp);
    const deviceIds = parseDeviceIds(request.deviceIds, context.config.limits.maxDevicesPerOrder);
    const sessionNumber = parseSessionNumber(request.sessionNumber);
    acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
    const outcomes = await context.sessions.close(deviceIds, sessionNumber, stamp);
    return { outcomes: outcomes.map(encodeOutcome) };
  };
}

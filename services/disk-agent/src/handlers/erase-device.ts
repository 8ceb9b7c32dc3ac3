import type { DiskAgentServiceService } from "@diskmesh/api/agent";
import { parseDeviceId } from "@diskmesh/domain";
import type { Handlers } from "@diskmesh/rpc";
import { acceptFrom } from "../accept-request.js";
import type { AgentContext } from "../context.js";
import { encodeOutcome, parseLeaderStamp, parseSessionNumber } from "../wire.js";

export function eraseDevice(context: AgentContext): Handlers<typeof DiskAgentServiceService>["eraseDevice"] {
  return async (request) => {
    const stamp = parseLeaderStamp(request.stamp);
    const deviceId = parseDeviceId(request.deviceId);
    const sessionNumber = parseSessionNumber(request.sessionNumber);
    acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
    const { outcome, erasedBytes } = await context.eraser.erase(deviceId, sessionNumber, stamp);
    return { outcome: encodeOutcome(outcome), erasedBytes };
  };
}

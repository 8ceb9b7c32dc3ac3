import type { EraseDeviceRequest, EraseDeviceResponse } from "@diskmesh/api/internal";
import { parseDeviceId } from "@diskmesh/domain";
import { acceptFrom } from "../accept-request.js";
import type { AgentContext } from "../context.js";
import { encodeOutcome, parseLeaderStamp, parseSessionNumber } from "../wire.js";

export async function eraseDevice(context: AgentContext, request: EraseDeviceRequest): Promise<EraseDeviceResponse> {
  const stamp = parseLeaderStamp(request.stamp);
  const deviceId = parseDeviceId(request.deviceId);
  const sessionNumber = parseSessionNumber(request.sessionNumber);
  acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  const { outcome, erasedBytes } = await context.eraser.erase(deviceId, sessionNumber, stamp);
  return { outcome: encodeOutcome(outcome), erasedBytes };
}

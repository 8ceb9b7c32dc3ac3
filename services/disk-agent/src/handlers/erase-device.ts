import type { EraseDeviceRequest, EraseDeviceResponse } from "@diskmesh/api/internal";
import { acceptFrom } from "../calls/accept-request.js";
import type { AgentContext } from "../calls/context.js";
import { encodeOutcome, parseLeaderStamp, parseRun, parseSessionNumber } from "../calls/wire.js";

export async function eraseDevice(context: AgentContext, request: EraseDeviceRequest): Promise<EraseDeviceResponse> {
  const stamp = parseLeaderStamp(request.stamp);
  const run = parseRun(request);
  const sessionNumber = parseSessionNumber(request.sessionNumber);
  acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  const { outcome, erasedBytes } = await context.orders.eraser.erase(run, sessionNumber, stamp);
  return { outcome: encodeOutcome(outcome), erasedBytes };
}

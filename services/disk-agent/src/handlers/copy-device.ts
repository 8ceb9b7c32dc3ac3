import type { CopyDeviceRequest, CopyDeviceResponse } from "@diskmesh/api/internal";
import { acceptFrom } from "../calls/accept-request.js";
import type { AgentContext } from "../calls/context.js";
import { encodeOutcome, parseCopyOrder, parseLeaderStamp } from "../calls/wire.js";

export async function copyDevice(context: AgentContext, request: CopyDeviceRequest): Promise<CopyDeviceResponse> {
  const stamp = parseLeaderStamp(request.stamp);
  const order = parseCopyOrder(request, context.config.hostId);
  acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  const { outcome, ...progress } = await context.orders.copier.copy(order, stamp);
  return { outcome: encodeOutcome(outcome), ...progress };
}

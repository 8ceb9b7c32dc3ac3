import type { OpenSessionRequest, OpenSessionResponse } from "@diskmesh/api/internal";
import { parseDiskId, parseHostId } from "@diskmesh/domain";
import { acceptFrom } from "../accept-request.js";
import type { AgentContext } from "../context.js";
import { encodeOutcome, parseDeviceIds, parseLeaderStamp, parseSessionNumber } from "../wire.js";

export async function openSession(context: AgentContext, request: OpenSessionRequest): Promise<OpenSessionResponse> {
  const stamp = parseLeaderStamp(request.stamp);
  const deviceIds = parseDeviceIds(request.deviceIds, context.limits.maxDevicesPerOrder);
  const wish = {
    number: parseSessionNumber(request.sessionNumber),
    purpose: "disk" as const,
    diskId: parseDiskId(request.diskId),
    holderHostId: request.holderHostId === "" ? "" : parseHostId(request.holderHostId, "holder_host_id"),
  };
  acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  const outcomes = await context.sessions.open(deviceIds, wish, stamp);
  return { outcomes: outcomes.map(encodeOutcome) };
}

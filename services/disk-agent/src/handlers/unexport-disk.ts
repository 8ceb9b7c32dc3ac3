import type { UnexportDiskRequest, UnexportDiskResponse } from "@diskmesh/api/agent";
import { parseDiskId } from "@diskmesh/domain";
import { acceptFrom } from "../accept-request.js";
import type { AgentContext } from "../context.js";
import { parseLeaderStamp, parseSessionNumber } from "../wire.js";

export async function unexportDisk(context: AgentContext, request: UnexportDiskRequest): Promise<UnexportDiskResponse> {
  const stamp = parseLeaderStamp(request.stamp);
  const diskId = parseDiskId(request.diskId);
  const sessionNumber = parseSessionNumber(request.sessionNumber);
  acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  await context.exports.end(diskId, sessionNumber);
  return {};
}

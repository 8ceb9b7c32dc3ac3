import type { DiskAgentServiceService } from "@diskmesh/api/agent";
import { parseDiskId } from "@diskmesh/domain";
import type { Handlers } from "@diskmesh/rpc";
import { acceptFrom } from "../accept-request.js";
import type { AgentContext } from "../context.js";
import { parseLeaderStamp, parseSessionNumber } from "../wire.js";

export function unexportDisk(context: AgentContext): Handlers<typeof DiskAgentServiceService>["unexportDisk"] {
  return async (request) => {
    const stamp = parseLeaderStamp(request.stamp);
    const diskId = parseDiskId(request.diskId);
    const sessionNumber = parseSessionNumber(request.sessionNumber);
    acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
    await context.exports.end(diskId, sessionNumber);
    return {};
  };
}

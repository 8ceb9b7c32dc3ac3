import type { DiskAgentServiceService } from "@diskmesh/api/agent";
import type { Handlers } from "@diskmesh/rpc";
import { acceptFrom } from "../accept-request.js";
import type { AgentContext } from "../context.js";
import { parseExportSpec, parseLeaderStamp } from "../wire.js";

export function exportDisk(context: AgentContext): Handlers<typeof DiskAgentServiceService>["exportDisk"] {
  return async (request) => {
    const stamp = parseLeaderStamp(request.stamp);
    const spec = parseExportSpec(request, context.config.limits.maxExtentsPerExport);
    acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
    return { exportPath: await context.exports.serve(spec) };
  };
}

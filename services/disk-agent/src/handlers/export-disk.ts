import type { ExportDiskRequest, ExportDiskResponse } from "@diskmesh/api/agent";
import { acceptFrom } from "../accept-request.js";
import type { AgentContext } from "../context.js";
import { parseExportSpec, parseLeaderStamp } from "../wire.js";

export async function exportDisk(context: AgentContext, request: ExportDiskRequest): Promise<ExportDiskResponse> {
  const stamp = parseLeaderStamp(request.stamp);
  const spec = parseExportSpec(request, context.config.limits.maxExtentsPerExport);
  acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  return { exportPath: await context.exports.serve(spec) };
}

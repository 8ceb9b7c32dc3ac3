import type { ExportDiskRequest, ExportDiskResponse } from "@diskmesh/api/internal";
import { acceptFrom } from "../calls/accept-request.js";
import type { AgentContext } from "../calls/context.js";
import { encodeOutcome, parseExportSpec, parseLeaderStamp, parseOpened } from "../calls/wire.js";
import { isGranted } from "../devices/outcome.js";

export async function exportDisk(context: AgentContext, request: ExportDiskRequest): Promise<ExportDiskResponse> {
  const { config, limits, orders, exports } = context;
  const stamp = parseLeaderStamp(request.stamp);
  const spec = parseExportSpec(request, config.hostId, limits.maxExtentsPerExport);
  const opened = parseOpened(request, limits.maxDevicesPerOrder);
  const accept = () => acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  accept();
  const serve = async () => ({
    exportPath: await exports.serve(spec),
    fixedSize: exports.hasFixedSize(spec.diskId),
  });
  if (opened.length === 0) return { ...(await serve()), outcomes: [] };
  const { diskId, sessionNumber: number } = spec;
  const wish = { number, purpose: "disk" as const, diskId, holderHostId: config.hostId };
  // One cache write stores the export together with the session.
  const came = await orders.sessions.open(opened, wish, stamp, { waitMs: 0, andRemember: () => exports.intend(spec) });
  const outcomes = came.map((outcome) => encodeOutcome(outcome));
  if (!came.every(isGranted)) return { exportPath: "", fixedSize: false, outcomes };
  // Checks the sender again, because the agent may have accepted a newer leader during the await.
  accept();
  return { ...(await serve()), outcomes };
}

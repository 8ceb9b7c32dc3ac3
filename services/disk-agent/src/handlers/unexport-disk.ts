import type { UnexportDiskRequest, UnexportDiskResponse } from "@diskmesh/api/internal";
import { parseDiskId } from "@diskmesh/domain";
import { acceptFrom } from "../calls/accept-request.js";
import type { AgentContext } from "../calls/context.js";
import { encodeCopied, encodeOutcome, parseLeaderStamp, parseOpened, parseSessionNumber } from "../calls/wire.js";

export async function unexportDisk(context: AgentContext, request: UnexportDiskRequest): Promise<UnexportDiskResponse> {
  const { limits, ledger, orders, exports } = context;
  const stamp = parseLeaderStamp(request.stamp);
  const diskId = parseDiskId(request.diskId);
  const number = parseSessionNumber(request.sessionNumber);
  const opened = parseOpened(request, limits.maxDevicesPerOrder);
  const accept = () => acceptFrom(context, { bootId: request.bootId, stamps: [stamp] });
  accept();
  const sealed = request.drain ? await exports.drain(diskId, number, accept) : [];
  const copied = sealed.map(encodeCopied);
  const ended = exports.end(diskId, number);
  if (opened.length === 0) {
    await Promise.all([ended, ledger.durable()]);
    return { outcomes: [], copied };
  }
  await ended;
  // Checks the sender again, because the agent may have accepted a newer leader during the await.
  accept();
  const wish = { number, purpose: "disk" as const, diskId, holderHostId: "" as const };
  // One cache write stores the end of the export together with the session.
  const outcomes = await orders.sessions.open(opened, wish, stamp, { waitMs: 0 });
  return { outcomes: outcomes.map((outcome) => encodeOutcome(outcome)), copied };
}

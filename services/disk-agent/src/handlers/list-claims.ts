import type { ListClaimsRequest, ListClaimsResponse } from "@diskmesh/api/internal";
import { parseDeviceId } from "@diskmesh/domain";
import type { AgentContext } from "../calls/context.js";
import { parseOffset } from "../calls/wire.js";
import { encodeLabel } from "../labels/label-wire.js";
import { encodeClaim } from "../labels/record-wire.js";

/** Each run of a page is read from the drive. */
const MAX_PAGE = 100;

export async function listClaims(
  { bootId, devices, orders: { sessions, labels } }: AgentContext,
  request: ListClaimsRequest,
): Promise<ListClaimsResponse> {
  const device = devices.get(parseDeviceId(request.deviceId));
  const fromBytes = parseOffset(request.fromOffsetBytes);
  const count = request.pageSize > 0 ? Math.min(request.pageSize, MAX_PAGE) : MAX_PAGE;
  const { claims, nextBytes, isDamaged } = await sessions.claims.read(device, fromBytes, count);
  return {
    bootId,
    ...encodeLabel(await labels.read(device)),
    tableDamaged: isDamaged,
    claims: claims.map(encodeClaim),
    nextOffsetBytes: nextBytes,
  };
}

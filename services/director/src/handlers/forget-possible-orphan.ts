import type { ForgetPossibleOrphanRequest, ForgetPossibleOrphanResponse } from "@diskmesh/api/director";
import { parseId } from "@diskmesh/domain";
import type { Context } from "../context.js";

export async function forgetPossibleOrphan(
  context: Context,
  request: ForgetPossibleOrphanRequest,
): Promise<ForgetPossibleOrphanResponse> {
  const token = parseId("token", request.token);
  await context.tablet.transact((tx) => tx.possibleOrphans.delete(token));
  return {};
}

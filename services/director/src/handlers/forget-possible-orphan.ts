import type { DeploymentServiceService } from "@diskmesh/api/director";
import { parseId } from "@diskmesh/domain";
import type { Handler } from "@diskmesh/rpc";
import type { Context } from "../context.js";

export function forgetPossibleOrphan(
  context: Context,
): Handler<(typeof DeploymentServiceService)["forgetPossibleOrphan"]> {
  return async (request) => {
    const token = parseId("token", request.token);
    await context.tablet.transact((tx) => tx.possibleOrphans.delete(token));
    return {};
  };
}

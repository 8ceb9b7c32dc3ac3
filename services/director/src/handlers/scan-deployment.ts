import type { ScanDeploymentRequest, ScanDeploymentResponse } from "@diskmesh/api/director";
import { parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { requireDeployment } from "../model/recorded-deployments.js";
import { encodeTask } from "../wire.js";
import { startTask } from "./start-task.js";

export async function scanDeployment(
  context: Context,
  request: ScanDeploymentRequest,
  call: CallContext,
): Promise<ScanDeploymentResponse> {
  const deployment = parseName("deployment", request.deployment);
  const task = await startTask(context, call, request.wait, {
    job: { type: "scan_deployment", deployment },
    queue: "normal",
    description: `scan deployment \`${deployment}\``,
    deployment: () => deployment,
    check: (tables) => requireDeployment(tables, deployment),
  });
  return { task: encodeTask(task) };
}

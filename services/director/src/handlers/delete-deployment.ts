import type { DeleteDeploymentRequest, DeleteDeploymentResponse } from "@diskmesh/api/director";
import { parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { refuseIgnoredInstances } from "../model/recorded-deployments.js";
import { encodeTask } from "../wire.js";
import { startTask } from "./start-task.js";

export async function deleteDeployment(
  context: Context,
  request: DeleteDeploymentRequest,
  call: CallContext,
): Promise<DeleteDeploymentResponse> {
  const name = parseName("deployment", request.deployment);
  const task = await startTask(context, call, request.wait, {
    job: { type: "delete_deployment", deployment: name, force: request.force },
    queue: "normal",
    description: `delete deployment \`${name}\``,
    deployment: () => name,
    check: (tables) => refuseIgnoredInstances(tables, name),
  });
  return { task: encodeTask(task) };
}

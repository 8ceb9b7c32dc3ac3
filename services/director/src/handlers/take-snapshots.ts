import type { TakeSnapshotsRequest, TakeSnapshotsResponse } from "@diskmesh/api/director";
import { parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { userOf } from "../workers/tasks.js";
import { parseInstanceId } from "./parse.js";
import { startTask } from "./start-task.js";

export async function takeSnapshots(
  context: Context,
  request: TakeSnapshotsRequest,
  call: CallContext,
): Promise<TakeSnapshotsResponse> {
  const deployment = parseName("deployment", request.deployment);
  const instanceId = request.instanceId === "" ? "" : parseInstanceId(request.instanceId);
  const task = await startTask(context, call, request.wait, {
    job: { type: "take_snapshots", deployment, instanceId },
    queue: "normal",
    description: `take snapshots of deployment \`${deployment}\``,
    deployment: () => deployment,
    // Clients that lost the answer ask again.
    joins: ({ job, user }) =>
      job?.type === "take_snapshots" &&
      job.deployment === deployment &&
      job.instanceId === instanceId &&
      user === userOf(call),
  });
  return { task: encodeTask(task) };
}

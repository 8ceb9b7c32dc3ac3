import type { DeleteVmRequest, DeleteVmResponse } from "@diskmesh/api/director";
import { parseCid } from "@diskmesh/cpi";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { startTask } from "./start-task.js";

export async function deleteVm(
  context: Context,
  request: DeleteVmRequest,
  call: CallContext,
): Promise<DeleteVmResponse> {
  const vmCid = parseCid("vm", request.vmCid);
  const task = await startTask(context, call, request.wait, {
    job: { type: "delete_vm", vmCid },
    queue: "normal",
    description: `delete vm \`${vmCid}\``,
    deployment: ({ instances }) => [...instances.by("byVmCid", vmCid)][0]?.deployment ?? "",
  });
  return { task: encodeTask(task) };
}

import type { VmServiceDefinition } from "@diskmesh/api/director";
import { parseCid } from "@diskmesh/cpi";
import type { Handlers, Serve } from "@diskmesh/rpc";
import type { TaskContext } from "../tasks/context.js";
import { taskMethod } from "../tasks/task-method.js";

type Service = Handlers<typeof VmServiceDefinition>;
type Name = "deleteVm";

export const vmTasks: { readonly [Method in Name]: Serve<TaskContext, Service[Method]> } = {
  deleteVm: taskMethod("normal", (request) => {
    const vmCid = parseCid("vm", request.vmCid);
    return {
      job: { type: "delete_vm", vmCid },
      description: `delete vm \`${vmCid}\``,
      deployment: ({ instances }) => [...instances.by("byVmCid", vmCid)][0]?.deployment ?? "",
    };
  }),
};

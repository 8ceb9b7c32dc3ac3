import { OrphanKind } from "@diskmesh/api/director";
import { UsageError } from "../../output/exit-codes.js";
import type { Action } from "../action.js";
import { cureOf, orphanNamed } from "../orphans.js";
import { followTask } from "../task-run.js";

export const deleteOrphan: Action = {
  usage: "delete-orphan <token>",
  summary: "delete a possible orphan with the CPI that has it, and take it from the list",
  options: [["--no-wait", "start the task and do not wait for it"]],
  example: "diskmesh delete-orphan 1c7b6a8e-5f0d-4a57-9d0b-3f6f0a4f6a11",
  run: async (call) => {
    const { args, mesh } = call;
    const orphan = await orphanNamed(mesh, args[0] ?? "");
    const { kind, cid, deployment } = orphan;
    if (cid === "") throw new UsageError(`its CID is not known: ${cureOf(orphan)}`);
    const { task } =
      kind === OrphanKind.VM
        ? await mesh.vms.deleteVm({ vmCid: cid, wait: false })
        : kind === OrphanKind.DISK
          ? await mesh.deployments.deleteOrphanedDisk({ diskCid: cid, wait: false })
          : await mesh.snapshots.deleteSnapshots({ deployment, snapshotCid: cid, wait: false });
    await followTask(call, task);
  },
};

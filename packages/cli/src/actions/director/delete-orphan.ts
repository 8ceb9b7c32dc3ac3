import { OrphanKind } from "@diskmesh/api/director";
import { UsageError } from "../../output/exit-codes.js";
import { cureOf, orphanNamed } from "../orphans.js";
import { taskAction } from "../task-run.js";

export const deleteOrphan = taskAction({
  usage: "delete-orphan <token>",
  summary: "delete a possible orphan with the CPI that has it, and take it from the list",
  example: "diskmesh delete-orphan 1c7b6a8e-5f0d-4a57-9d0b-3f6f0a4f6a11",
  start: async ({ mesh, args: [token = ""] }) => {
    const orphan = await orphanNamed(mesh, token);
    const { kind, cid, deployment } = orphan;
    if (cid === "") throw new UsageError(`its CID is not known: ${cureOf(orphan)}`);
    if (kind === OrphanKind.VM) return mesh.vms.deleteVm({ vmCid: cid, wait: false });
    if (kind === OrphanKind.DISK) return mesh.deployments.deleteOrphanedDisk({ diskCid: cid, wait: false });
    return mesh.snapshots.deleteSnapshots({ deployment, snapshotCid: cid, wait: false });
  },
});

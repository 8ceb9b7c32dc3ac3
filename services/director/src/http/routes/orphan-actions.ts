import { InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { forgetPossibleOrphan } from "../../cpi/handlers.js";
import { persistentDiskTasks } from "../../disks/persistent/handlers.js";
import type { PossibleOrphan } from "../../store/possible-orphan.js";
import { vmTasks } from "../../vms/handlers.js";
import type { HttpCall } from "../route.js";

interface Wanted {
  /** The possible orphan's token. */
  readonly name: string;
  readonly isDry: boolean;
}

/** Starts the task that deletes a possible orphan. */
export async function deleteOrphanNow(http: HttpCall, { name, isDry }: Wanted): Promise<readonly string[]> {
  const { context, call } = http;
  const { kind, cid = "", deployment } = await orphanNamed(http, name);
  if (cid === "")
    throw new InvalidStateError(
      `the CID of this ${kind} is not known: look for it in the infrastructure, delete it there, then forget it here`,
    );
  if (isDry) return [`${kind} ${cid} and its data are deleted with the CPI that has it`];
  const wanted = { deployment, vmCid: cid, diskCid: cid, snapshotCid: cid, force: false, wait: false };
  const start = {
    vm: vmTasks.deleteVm,
    disk: persistentDiskTasks.deleteOrphanedDisk,
    snapshot: persistentDiskTasks.deleteSnapshots,
  }[kind];
  const { task } = await start(context, wanted, call);
  return [`task ${task?.taskId} deletes ${kind} ${cid}`];
}

export async function forgetOrphanNow(http: HttpCall, { name, isDry }: Wanted): Promise<readonly string[]> {
  const { kind, cid } = await orphanNamed(http, name);
  if (!isDry) await forgetPossibleOrphan(http.context, { token: name }, http.call);
  return [
    `${kind} ${cid || name} is taken from this list and not deleted: forget what is gone from the infrastructure`,
  ];
}

async function orphanNamed({ context }: HttpCall, token: string): Promise<PossibleOrphan> {
  const orphan = await context.tablet.read((tables) => tables.possibleOrphans.get(token));
  if (orphan !== undefined) return orphan;
  throw new NotFoundError("this orphan is not in the list any more");
}

import type { OrphanPersistentDiskRequest, OrphanPersistentDiskResponse } from "@diskmesh/api/director";
import { parseCid } from "@diskmesh/cpi";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { encodeTask } from "../wire.js";
import { startTask } from "./start-task.js";

export async function orphanPersistentDisk(
  context: Context,
  request: OrphanPersistentDiskRequest,
  call: CallContext,
): Promise<OrphanPersistentDiskResponse> {
  const diskCid = parseCid("disk", request.diskCid);
  const task = await startTask(context, call, request.wait, {
    job: { type: "orphan_persistent_disk", diskCid },
    queue: "normal",
    description: `orphan disk \`${diskCid}\``,
    deployment: ({ persistentDisks }) => {
      const [disk] = persistentDisks.by("byCid", diskCid);
      return disk?.deployment ?? "";
    },
  });
  return { task: encodeTask(task) };
}

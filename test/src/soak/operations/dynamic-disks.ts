import { join } from "node:path";
import { BLOCK_BYTES, DiskContent } from "../../mesh/disk-content.js";
import { DiskUser } from "../disk-user.js";
import { exists, type Operation, persistently, runTask, type Soak, type Worker } from "../soak.js";
import { DEVICE_BYTES } from "../soak-fleet.js";
import { DISK_TYPE } from "./deployment-names.js";
import { workInstances } from "./work-instances.js";

const MOST_MOVES = 3;

/** Provides a dynamic disk at the director to one instance after another, writes to it, compares it, and deletes it. */
export const dynamicDisks: Operation = {
  name: "dynamic disk: provide, write, detach, delete",
  workers: 2,
  async run(soak, worker) {
    const diskName = `soak-dynamic-${worker.slot}-${worker.round}`;
    const { disks } = soak.fleet.clients;
    const content = new DiskContent(diskName, DEVICE_BYTES / BLOCK_BYTES);
    for (let moves = 1 + worker.random.below(MOST_MOVES); moves > 0; moves--)
      await useInVm(soak, worker, diskName, content);
    await runTask(soak, `DeleteDisk ${diskName}`, () => disks.deleteDisk({ diskName, wait: true }));
    if (await exists(`GetDisk ${diskName}`, () => soak.fleet.mesh.clients.disks.getDisk({ diskName })))
      soak.violations.add(`acknowledged is there: ${diskName} was deleted, and is there`);
  },
};

async function useInVm(soak: Soak, worker: Worker, diskName: string, content: DiskContent): Promise<void> {
  const { clients, mesh } = soak.fleet;
  const { instanceId, agentId } = worker.random.pick(await workInstances(soak));
  const wanted = { diskName, instanceId, diskPoolName: DISK_TYPE, sizeBytes: DEVICE_BYTES };
  const provide = () => clients.disks.provideDisk({ ...wanted, wait: true });
  await runTask(soak, `ProvideDisk ${diskName}`, provide);
  const { disk } = await persistently(`GetDisk ${diskName}`, () => clients.disks.getDisk({ diskName }));
  if (disk?.instanceId !== instanceId)
    soak.violations.add(`acknowledged is there: ${diskName} was provided for ${instanceId}, not ${disk?.instanceId}`);
  const socketPath = join(mesh.baseFolder(agentId), "data/dynamic_disks", disk?.diskCid ?? "");
  await DiskUser.once(soak, { hostId: agentId, socketPath }, content, worker);
  await runTask(soak, `DetachDisk ${diskName}`, () => clients.disks.detachDisk({ diskName, wait: true }));
}

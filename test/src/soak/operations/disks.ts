import { join } from "node:path";
import { BLOCK_BYTES, DiskContent } from "../../mesh/disk-content.js";
import { DiskUser } from "../disk-user.js";
import { exists, type Operation, persistently, type Soak, type Worker } from "../soak.js";
import { DEVICE_BYTES, WORK_AZ } from "../soak-fleet.js";
import { workInstances } from "./work-instances.js";

const MOST_DEVICES = 2;
const MOST_MOVES = 3;

/** Creates a disk at the registry, writes to it on one host after another, compares it, and deletes it. */
export const disks: Operation = {
  name: "disk: create, publish, write, move, delete",
  workers: 3,
  async run(soak, worker) {
    const diskId = `soak-disk-${worker.slot}-${worker.round}`;
    const { registry } = soak.fleet.clients;
    const sizeBytes = (1 + worker.random.below(MOST_DEVICES)) * DEVICE_BYTES;
    const wanted = { diskId, sizeBytes, az: WORK_AZ, spreadRacks: worker.random.next() < 0.5 };
    const labels = [{ name: "made-by", value: "soak" }];
    await persistently(`CreateDisk ${diskId}`, () => registry.createDisk({ ...wanted, labels }));
    // A new disk contains zeros, because all earlier data on its devices was erased.
    const content = new DiskContent(diskId, sizeBytes / BLOCK_BYTES);
    for (let moves = 1 + worker.random.below(MOST_MOVES); moves > 0; moves--)
      await useOnHost(soak, worker, diskId, content);
    await persistently(`DeleteDisk ${diskId}`, () => registry.deleteDisk({ diskId }));
    if (await exists(`GetDisk ${diskId}`, () => soak.fleet.mesh.clients.registry.getDisk({ diskId })))
      soak.violations.add(`acknowledged is there: ${diskId} was deleted, and is there`);
  },
};

async function useOnHost(soak: Soak, worker: Worker, diskId: string, content: DiskContent): Promise<void> {
  const { clients, mesh } = soak.fleet;
  // Uses only hosts of the work deployment. The VM of the other deployment is deleted at times, which detaches all
  // disks from its host.
  const { agentId: hostId } = worker.random.pick(await workInstances(soak));
  const publish = () => clients.registry.publishDisk({ diskId, hostId });
  const { disk } = await persistently(`PublishDisk ${diskId} on ${hostId}`, publish);
  if (disk?.publication?.hostId !== hostId)
    soak.violations.add(`acknowledged is there: ${diskId} was published on ${hostId}, and is not`);
  const socketPath = join(mesh.baseFolder(hostId), "exports", `${diskId}.sock`);
  await DiskUser.once(soak, { hostId, socketPath }, content, worker);
  const unpublish = () => clients.registry.unpublishDisk({ diskId });
  await persistently(`UnpublishDisk ${diskId}`, unpublish);
}

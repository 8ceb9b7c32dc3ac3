import { join } from "node:path";
import type { Instance, PersistentDisk } from "@diskmesh/api/director";
import { BLOCK_BYTES, DiskContent } from "../../mesh/disk-content.js";
import { DiskUser } from "../disk-user.js";
import { type Operation, persistently, runTask, type Soak, type Worker } from "../soak.js";
import { DEVICE_BYTES, WORK_AZ } from "../soak-fleet.js";
import { CHURN_DEPLOYMENT } from "./deployment-names.js";

const MOST_UPDATES = 2;

/**
 * Creates a deployment with a persistent disk, recreates its VM with the same disk, and deletes the deployment and the
 * disk.
 */
export const deployments: Operation = {
  name: "deployment: deploy, update, delete",
  workers: 1,
  async run(soak, worker) {
    const client = soak.fleet.clients.deployments;
    const content = new DiskContent(`persistent-${worker.round}`, DEVICE_BYTES / BLOCK_BYTES);
    let diskCid = "";
    for (let version = 0; version <= 1 + worker.random.below(MOST_UPDATES); version++) {
      await deploy(soak, worker.round, version);
      const instance = await onlyInstance(soak);
      const disk = await onlyDisk(soak);
      if (version > 0 && disk.diskCid !== diskCid)
        soak.violations.add(`acknowledged is there: the persistent disk ${diskCid} became ${disk.diskCid}`);
      diskCid = disk.diskCid;
      await use(soak, worker, instance, diskCid, content);
    }
    const deployment = CHURN_DEPLOYMENT;
    await runTask(soak, "DeleteDeployment", () => client.deleteDeployment({ deployment, wait: true }));
    await runTask(soak, `DeleteOrphanedDisk ${diskCid}`, () => client.deleteOrphanedDisk({ diskCid, wait: true }));
    const { deployments: left } = await persistently("ListDeployments", () => client.listDeployments({}));
    if (left.some(({ name }) => name === deployment))
      soak.violations.add(`acknowledged is there: the deployment ${deployment} was deleted, and is there`);
  },
};

async function deploy(soak: Soak, round: number, version: number): Promise<void> {
  const group = `instances: 1, persistent_disk: 1, env: {round: ${round}, version: ${version}}`;
  const manifest = `name: ${CHURN_DEPLOYMENT}\ninstance_groups: [{name: db, azs: [${WORK_AZ}], ${group}}]\n`;
  await runTask(soak, `Deploy ${CHURN_DEPLOYMENT}`, () =>
    soak.fleet.clients.deployments.deploy({ manifest, wait: true }),
  );
}

async function onlyInstance(soak: Soak): Promise<Instance> {
  const list = () => soak.fleet.clients.deployments.listInstances({ deployment: CHURN_DEPLOYMENT });
  const { instances } = await persistently("ListInstances", list);
  const [instance] = instances;
  if (instance === undefined || instances.length > 1)
    throw new Error(`acknowledged is there: ${instances.length} instances after a deploy of one`);
  return instance;
}

async function onlyDisk(soak: Soak): Promise<PersistentDisk> {
  const all = { deployment: CHURN_DEPLOYMENT };
  const list = () => soak.fleet.clients.deployments.listPersistentDisks(all);
  const { disks } = await persistently("ListPersistentDisks", list);
  const [disk] = disks;
  if (disk === undefined || disks.length > 1)
    throw new Error(`acknowledged is there: ${disks.length} persistent disks after a deploy of one`);
  return disk;
}

async function use(soak: Soak, worker: Worker, { agentId }: Instance, diskCid: string, content: DiskContent) {
  const socketPath = join(soak.fleet.mesh.baseFolder(agentId), "data/persistent_disks", diskCid);
  await DiskUser.once(soak, { hostId: agentId, socketPath }, content, worker);
}

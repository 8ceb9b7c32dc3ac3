import type { Instance } from "@diskmesh/api/director";
import { InvalidStateError } from "@diskmesh/domain";
import { DEPLOYMENT, HOSTS } from "../mesh/layout.js";
import { whyNoMounts } from "./mounted-disk.js";
import { runTask, type Scene, waitFor } from "./scene.js";

export const DISK_TYPE = "default";

const AZS = [...new Set(HOSTS.map(({ az }) => az))];

const cloudConfig = (kind: "device" | "nbd") => `azs:
${AZS.map((az) => `- name: ${az}`).join("\n")}
disk_types:
- name: ${DISK_TYPE}
  disk_size: 64
  cloud_properties: {export: ${kind}}
`;

const MANIFEST = `name: ${DEPLOYMENT}
instance_groups:
- name: web
  instances: 2
  azs: [${AZS.join(", ")}]
`;

/** Updates the cloud config that the deployment needs. Disks are block devices where this machine can mount them. */
export async function updateCloudConfig(scene: Scene): Promise<string> {
  const whyNot = await whyNoMounts();
  const content = cloudConfig(whyNot === undefined ? "device" : "nbd");
  const config = await waitFor(scene, "the director to take the cloud config", async () => {
    return (await scene.clients.configs.updateConfig({ type: "cloud", content })).config;
  });
  const disks = whyNot === undefined ? "block devices" : `NBD sockets, not block devices: ${whyNot}`;
  return `version ${config.configId}: azs ${AZS.join(", ")}, disk type ${DISK_TYPE}; disks are ${disks}`;
}

/** Deploys two instances on different hosts. */
export async function deploy(scene: Scene): Promise<[Instance, Instance]> {
  await runTask(scene, `deployment ${DEPLOYMENT}`, () =>
    scene.clients.deployments.deploy({ manifest: MANIFEST, wait: true }),
  );
  const { instances } = await waitFor(scene, `the instances of ${DEPLOYMENT}`, () =>
    scene.clients.deployments.listInstances({ deployment: DEPLOYMENT }),
  );
  const [first, second] = instances;
  if (!first?.vmCid || !second?.vmCid || first.agentId === second.agentId)
    throw new InvalidStateError(
      `deployment ${DEPLOYMENT} has not its two instances on two hosts: ${JSON.stringify(instances)}`,
    );
  return [first, second];
}

/** Formats an instance for the story. The agent id of a fleet CPI's VM is its host id. */
export function describeInstance(instance: Instance): string {
  return `${instance.group}/${instance.index} on ${instance.agentId}`;
}

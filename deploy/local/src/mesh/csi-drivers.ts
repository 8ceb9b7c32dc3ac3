import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Instance } from "@diskmesh/api/director";
import { replaceFile } from "@diskmesh/atomic-file";
import { type CsiClients, csiClients } from "@diskmesh/csi-driver/client";
import { stringify } from "yaml";
import { HOSTS, type MeshLayout } from "./layout.js";
import { csiDriver } from "./members.js";
import type { Mesh } from "./mesh.js";

const CONTROLLER = "csi-controller";

/** An instance with a node plugin. */
export interface CsiNode {
  readonly instance: Instance;
  /** Folder for the paths at which the node plugin mounts volumes. */
  readonly folder: string;
  readonly calls: CsiClients["node"];
}

export interface CsiDrivers extends Disposable {
  readonly controller: CsiClients["controller"];
  readonly nodes: readonly [CsiNode, CsiNode];
}

/** Starts a CSI controller for the deployment, and a node plugin for each of two instances. */
export async function startCsiDrivers(
  mesh: Pick<Mesh, "start">,
  layout: MeshLayout,
  instances: readonly [Instance, Instance],
  signal: AbortSignal,
): Promise<CsiDrivers> {
  const [{ deployment }] = instances;
  await writeConfig(layout, CONTROLLER, {
    controller: {
      director: { address: layout.addressOf("director") },
      tls: layout.tlsFiles("csi"),
      deployment,
      azs: [...new Set(HOSTS.map(({ az }) => az))],
    },
  });
  for (const { instanceId, agentId, az } of instances) {
    const folder = layout.dataFolder(nodeName(agentId));
    const folders = { dynamicDisksFolder: layout.dynamicDisksFolder(agentId), mountFolders: [folder] };
    const node = { instanceId, az, ...folders, stateFolder: join(folder, "uses") };
    await writeConfig(layout, nodeName(agentId), { node });
  }
  const nodePlugins = instances.map(({ agentId }) => csiDriver(layout, nodeName(agentId), "node"));
  await mesh.start([csiDriver(layout, CONTROLLER, "controller"), ...nodePlugins], signal);
  const opened: CsiClients[] = [];
  const open = (name: string): CsiClients => {
    const clients = csiClients(layout.csiSocket(name));
    opened.push(clients);
    return clients;
  };
  const nodeOf = (instance: Instance): CsiNode => {
    const name = nodeName(instance.agentId);
    return { instance, folder: layout.dataFolder(name), calls: open(name).node };
  };
  const { controller } = open(CONTROLLER);
  const [one, two] = instances;
  return {
    controller,
    nodes: [nodeOf(one), nodeOf(two)],
    [Symbol.dispose]: () => {
      for (const clients of opened) clients.close();
    },
  };
}

const nodeName = (hostId: string): string => `csi-node-${hostId}`;

async function writeConfig(layout: MeshLayout, name: string, config: object): Promise<void> {
  // Volumes are mounted below it.
  await mkdir(layout.dataFolder(name), { recursive: true, mode: 0o700 });
  await chmod(layout.dataFolder(name), 0o700);
  await replaceFile(layout.configFile(name), stringify(config));
}

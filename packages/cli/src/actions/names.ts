import { quoted } from "@diskmesh/domain";
import { allPages } from "@diskmesh/rpc";
import { dynamicDisks } from "../mesh/disk-names.js";
import type { Mesh } from "../mesh/mesh.js";
import { UsageError } from "../output/exit-codes.js";
import type { Action } from "./action.js";
import { instancesOf } from "./instances.js";

const PAGE_SIZE = 1_000;

/** The names of all objects, by the kinds that complete a command line. */
const NAMES: Readonly<Record<string, (mesh: Mesh) => Promise<string[]>>> = {
  host: ({ registry }) =>
    allPages(async (pageToken) => {
      const { hosts, nextPageToken } = await registry.listHosts({ pageToken, pageSize: PAGE_SIZE });
      return { items: hosts.map(({ hostId }) => hostId), nextPageToken };
    }),
  device: ({ registry }) =>
    allPages(async (pageToken) => {
      const { devices, nextPageToken } = await registry.listDevices({ pageToken, pageSize: PAGE_SIZE });
      return { items: devices.map(({ deviceId }) => deviceId), nextPageToken };
    }),
  disk: async (mesh) => (await dynamicDisks(mesh)).flatMap(({ diskName, diskCid }) => [diskName, diskCid || []].flat()),
  "disk-name": async (mesh) => (await dynamicDisks(mesh)).map(({ diskName }) => diskName),
  pool: async ({ registry }) => [...new Set((await registry.getCapacity({})).pools.map(({ pool }) => pool))],
  config: ({ configs }) =>
    allPages(async (pageToken) => {
      const { configs: found, nextPageToken } = await configs.listConfigs({ pageToken, pageSize: PAGE_SIZE });
      return { items: found.map(({ type, name }) => `${type}/${name}`), nextPageToken };
    }),
  deployment: deploymentsOf,
  instance: async (mesh) => (await allInstances(mesh)).map(({ instanceId }) => instanceId),
  vm: async (mesh) =>
    (await allInstances(mesh)).map(({ deployment, group, index }) => `${deployment}/${group}/${index}`),
  task: async ({ tasks }) => (await tasks.listTasks({ pageSize: 30 })).tasks.map(({ taskId }) => String(taskId)),
};

function deploymentsOf({ deployments }: Mesh): Promise<string[]> {
  return allPages(async (pageToken) => {
    const page = await deployments.listDeployments({ pageToken, pageSize: PAGE_SIZE });
    return { items: page.deployments.map(({ name }) => name), nextPageToken: page.nextPageToken };
  });
}

async function allInstances(mesh: Mesh) {
  const names = await deploymentsOf(mesh);
  return (await Promise.all(names.map((name) => instancesOf(mesh, name)))).flat();
}

export const names: Action = {
  usage: "names <kind>",
  summary: `print the names of all objects of a kind, for completion: ${Object.keys(NAMES).join(", ")}`,
  example: "diskmesh names host",
  run: async ({ mesh, output, args: [kind = ""] }) => {
    const namesOf = Object.hasOwn(NAMES, kind) ? NAMES[kind] : undefined;
    if (namesOf === undefined) throw new UsageError(`${quoted(kind)} is none of ${Object.keys(NAMES).join(", ")}`);
    const found = await namesOf(mesh);
    output.answer(found, found.join("\n"));
  },
};

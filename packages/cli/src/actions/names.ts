import { quoted } from "@diskmesh/domain";
import { allPages } from "@diskmesh/rpc";
import type { Mesh } from "../mesh/mesh.js";
import { UsageError } from "../output/exit-codes.js";
import type { Action } from "./action.js";
import { dynamicDisks } from "./disk-names.js";

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
  config: async ({ configs }) => (await configs.listConfigs({})).configs.map(({ type, name }) => `${type}/${name}`),
  deployment: async ({ deployments }) => (await deployments.listDeployments({})).deployments.map(({ name }) => name),
  instance: async (mesh) => (await instancesOf(mesh)).map(({ instanceId }) => instanceId),
  vm: async (mesh) =>
    (await instancesOf(mesh)).map(({ deployment, group, index }) => `${deployment}/${group}/${index}`),
  task: async ({ tasks }) => (await tasks.listTasks({ pageSize: 30 })).tasks.map(({ taskId }) => String(taskId)),
};

async function instancesOf({ deployments }: Mesh) {
  const { deployments: all } = await deployments.listDeployments({});
  const found = await Promise.all(all.map(({ name }) => deployments.listInstances({ deployment: name })));
  return found.flatMap(({ instances }) => instances);
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

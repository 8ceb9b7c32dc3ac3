import { quoted } from "@diskmesh/domain";
import { cidOfDisk } from "../mesh/disk-names.js";
import type { Mesh } from "../mesh/mesh.js";
import { UsageError } from "../output/exit-codes.js";
import { taskIdOf } from "../output/values.js";
import type { Action } from "./action.js";
import { getInstance } from "./instances.js";

const KINDS: Readonly<Record<string, (mesh: Mesh, name: string) => Promise<object | undefined>>> = {
  host: async ({ registry }, hostId) => (await registry.getHost({ hostId })).host,
  device: async ({ registry }, deviceId) => (await registry.getDevice({ deviceId })).device,
  disk: async (mesh, name) => (await mesh.registry.getDisk({ diskId: await cidOfDisk(mesh, name) })).disk,
  "dynamic-disk": async ({ disks }, diskName) => (await disks.getDynamicDisk({ diskName })).disk,
  pool: async ({ registry }, pool) => (await registry.getCapacity({ pool })).pools,
  vm: getInstance,
  config: async ({ configs }, typeAndName) => {
    const [type = "", name = ""] = typeAndName.split("/");
    return (await configs.getConfig({ type, name })).config;
  },
  task: async ({ tasks }, name) => (await tasks.getTask({ taskId: taskIdOf(name) })).task,
};

export const get: Action = {
  usage: "get <kind> <name>",
  summary: `print one object whole, as YAML or with -o json: ${Object.keys(KINDS).join(", ")}`,
  kinds: Object.keys(KINDS),
  example: "diskmesh get host host-3 -o json",
  run: async ({ mesh, output, args: [kind = "", name = ""] }) => {
    const read = Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
    if (read === undefined) throw new UsageError(`${quoted(kind)} is none of ${Object.keys(KINDS).join(", ")}`);
    const found = await read(mesh, name);
    if (found === undefined) throw new TypeError("the answer has no object");
    await output.object(found);
  },
};

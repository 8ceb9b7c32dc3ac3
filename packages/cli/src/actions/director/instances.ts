import type { Instance } from "@diskmesh/api/director";
import { isJsonObject } from "@diskmesh/domain";
import { type Columns, short } from "../../output/output.js";
import type { Action } from "../action.js";
import { instancesOf } from "../instances.js";

const COLUMNS: Columns<Instance> = {
  instance: ({ group, index }) => `${group}/${index}`,
  id: ({ instanceId }) => instanceId,
  state: ({ state, ignore }) => (ignore ? `${short(state)}, ignored` : short(state)),
  vm: ({ vmCid }) => vmCid,
  "vm state": ({ vmState }) => short(vmState),
  jobs: ({ jobsState }) => short(jobsState),
  az: ({ az }) => az,
  cpi: ({ cpi }) => cpi,
};

export const instances: Action = {
  usage: "instances <deployment>",
  summary: "list the instances of a deployment, with their VMs",
  example: "diskmesh instances demo",
  run: async ({ mesh, output, args: [deployment = ""] }) => {
    const found = await instancesOf(mesh, deployment);
    output.list(COLUMNS, found, "no instances");
    for (const warning of sharedAddresses(found)) output.say(`WARNING: ${warning}`);
  },
};

/** Returns a sentence for each address that the CPI has given to several VMs in one network. */
export function sharedAddresses(
  instances: readonly Pick<Instance, "group" | "index" | "vmCid" | "networks">[],
): readonly string[] {
  const owners = new Map<string, string[]>();
  for (const { group, index, vmCid, networks = {} } of instances) {
    if (vmCid === "") continue;
    for (const [name, network] of Object.entries(networks)) {
      if (!isJsonObject(network) || typeof network.ip !== "string" || network.ip === "") continue;
      const address = `address ${network.ip} in network ${name}`;
      owners.set(address, [...(owners.get(address) ?? []), `${group}/${index}`]);
    }
  }
  return [...owners].flatMap(([address, names]) =>
    names.length < 2 ? [] : `the VMs of ${names.join(" and ")} have one ${address}: recreate one of them`,
  );
}

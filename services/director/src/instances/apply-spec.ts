import { isJsonObject, type JsonObject } from "@diskmesh/domain";
import type { Instance } from "../store/instance.js";

/** Returns the agent's apply spec in BOSH's format. The job lists are empty, because instances have no jobs. */
export function applySpec(instance: Instance, persistentDiskMib: number): object {
  const { deployment, group, index, instanceId, az, networks } = instance;
  return {
    deployment,
    name: group,
    job: { name: group, release: "", template: "", version: "", sha1: "", templates: [] },
    index,
    id: instanceId,
    az,
    networks,
    properties: {},
    packages: {},
    resource_pool: {},
    persistent_disk: persistentDiskMib,
    // Empty, because there is nothing to install.
    configuration_hash: "",
    template_hashes: {},
  };
}

const FOUND_BY_VM = ["ip", "netmask", "gateway"] as const;

/**
 * Returns the instance with the addresses that its agent reports for dynamic networks, where the infrastructure assigns
 * them.
 */
export function withFoundAddresses(instance: Instance, state: unknown): Instance {
  const found = isJsonObject(state) && isJsonObject(state.networks) ? state.networks : {};
  const networks = Object.entries(instance.networks).map(([name, network]) => {
    const seen = found[name];
    if (!isJsonObject(network) || network.type !== "dynamic" || !isJsonObject(seen)) return [name, network];
    return [name, { ...network, ...addressesIn(seen) }];
  });
  return { ...instance, networks: Object.fromEntries(networks) };
}

function addressesIn(network: JsonObject): Record<string, string> {
  const known = FOUND_BY_VM.map((key) => [key, network[key]] as const);
  return Object.fromEntries(known.filter((each): each is [(typeof FOUND_BY_VM)[number], string] => isAddress(each[1])));
}

function isAddress(value: unknown): value is string {
  return typeof value === "string" && /^[0-9A-Fa-f.:]{2,45}$/.test(value);
}

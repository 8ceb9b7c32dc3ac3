import type { AgentSettings } from "../specs/agent-settings.js";
import { type CloudConfig, vmExtensionNamed, vmTypeNamed } from "../specs/cloud-config.js";
import type { VmNeeds } from "../specs/instance-group.js";
import type { Json, JsonObject } from "../store/json.js";

/** Returns the merged cloud properties of AZ, VM type and VM extensions; later sources override earlier ones. */
export function vmCloudProperties(group: VmNeeds, az: JsonObject, config: CloudConfig): JsonObject {
  const type = group.vmType === "" ? {} : vmTypeNamed(config, group.vmType).cloudProperties;
  const extensions = group.vmExtensions.map((name) => vmExtensionNamed(config, name).cloudProperties);
  return Object.assign({}, az, type, ...extensions);
}

export interface VmIdentity {
  readonly director: string;
  readonly deployment: string;
  readonly group: string;
  readonly tags: JsonObject;
}

/**
 * Returns the env of create_vm. It contains the agent's settings unless the agent reads them from the bosh-registry.
 * Values of the manifest override the settings.
 */
export function vmEnv(manifestEnv: JsonObject, identity: VmIdentity, settings: AgentSettings | undefined): JsonObject {
  const { director, deployment, group, tags } = identity;
  const names = [director, deployment, group].map(canonical) as [string, string, string];
  const [a, b, c] = names;
  const bosh: Record<string, Json> = {
    ...settings,
    ...asObject(manifestEnv.bosh),
    group: `${a}-${b}-${c}`,
    groups: [a, b, c, `${a}-${b}`, `${b}-${c}`, `${a}-${b}-${c}`],
  };
  if (Object.keys(tags).length > 0) bosh.tags = { ...tags, ...asObject(asObject(manifestEnv.bosh).tags) };
  return { ...manifestEnv, bosh };
}

function asObject(value: Json | undefined): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

/** Returns a name in BOSH's canonical form. */
function canonical(name: string): string {
  return name
    .toLowerCase()
    .replaceAll("_", "-")
    .replaceAll(/[^a-z0-9-]/g, "");
}

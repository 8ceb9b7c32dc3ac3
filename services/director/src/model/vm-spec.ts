import { type CloudConfig, vmExtensionNamed, vmTypeNamed } from "./cloud-config.js";
import type { Json, JsonObject } from "./json.js";

/** What create_vm is asked for, recorded with the intent: asked for again, it is the same. */
export interface VmSpec {
  /** Empty for none. */
  readonly stemcellCid: string;
  readonly cloudProperties: JsonObject;
  readonly networks: JsonObject;
  readonly env: JsonObject;
}

/**
 * What the manifest and the configs said of a VM when it was made. Agents' settings are not part of it: they rotate
 * without a VM being made anew, and are secret.
 */
export interface VmBasis {
  /** Name and version; empty for none. */
  readonly stemcell: string;
  readonly cloudProperties: JsonObject;
  /** As create_vm was asked for them. */
  readonly networks: JsonObject;
  /** Of the manifest. */
  readonly env: JsonObject;
  /** As the VM's metadata has them. */
  readonly tags: JsonObject;
  /** Group and index in the VM's metadata; earlier releases recorded none. */
  readonly member?: string;
}

/** What an instance group wants its VMs to be. */
export interface VmNeeds {
  /** Empty for none. */
  readonly vmType: string;
  readonly vmExtensions: readonly string[];
}

/** Cloud properties of the az, the VM type and the VM extensions; later ones win. */
export function vmCloudProperties(group: VmNeeds, az: JsonObject, config: CloudConfig): JsonObject {
  const type = group.vmType === "" ? {} : vmTypeNamed(config, group.vmType).cloudProperties;
  const extensions = group.vmExtensions.map((name) => vmExtensionNamed(config, name).cloudProperties);
  return Object.assign({}, az, type, ...extensions);
}

/** What agents need to know that the infrastructure cannot tell them (`mbus`, `ntp`, `blobstores`). */
export type AgentSettings = JsonObject;

export interface VmIdentity {
  readonly director: string;
  readonly deployment: string;
  readonly group: string;
  readonly tags: JsonObject;
}

/**
 * The env of create_vm. The agent's settings are in it unless it gets them from the bosh-registry; the manifest's values win.
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

/** As names of groups are written in BOSH. */
function canonical(name: string): string {
  return name
    .toLowerCase()
    .replaceAll("_", "-")
    .replaceAll(/[^a-z0-9-]/g, "");
}

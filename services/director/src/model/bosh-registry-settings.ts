import type { Json, JsonObject } from "./json.js";

/** What a CPI of version 1 told the bosh-registry for a VM's agent. */
export interface BoshRegistrySettings {
  /** The CPI's id for it, often the VM's cid. */
  readonly id: string;
  /** JSON, as it came. Holds credentials. */
  readonly settings: string;
  /** As in the settings; empty when they name none. */
  readonly agentId: string;
}

export function agentIdOf(settings: JsonObject): string {
  return typeof settings.agent_id === "string" ? settings.agent_id : "";
}

/** Addresses of the VM: from these its agent may read the settings without credentials, as agents of old do. */
export function ipsOf(settings: JsonObject): string[] {
  const { networks } = settings;
  if (!isObject(networks)) return [];
  return Object.values(networks).flatMap((network) =>
    isObject(network) && typeof network.ip === "string" ? [network.ip] : [],
  );
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

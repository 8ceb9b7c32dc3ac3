import type { Json, JsonObject } from "../store/json.js";

export function agentIdOf(settings: JsonObject): string {
  return typeof settings.agent_id === "string" ? settings.agent_id : "";
}

/** Returns the VM's addresses. Old agents read their settings from these addresses without credentials. */
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

import { dispatcherConfig } from "@diskmesh/cpi-dispatcher/config";
import { csiConfig } from "@diskmesh/csi-driver/config";
import { directorConfig } from "@diskmesh/director/config";
import { configSchema as agentConfig } from "@diskmesh/disk-agent/config";
import { configSchema as registryConfig } from "@diskmesh/disk-registry/config";
import { type ConfigKey, type checkConfig, keysOf } from "@diskmesh/service";

type Schema = Parameters<typeof checkConfig>[0];

/** Config schemas of all services. */
export const CONFIGS: ReadonlyMap<string, Schema> = new Map<string, Schema>([
  ["director", directorConfig],
  ["cpi-dispatcher", dispatcherConfig],
  ["disk-registry", registryConfig],
  ["disk-agent", agentConfig],
  ["csi-driver", csiConfig],
]);

function configOf(service: string): Schema {
  const schema = CONFIGS.get(service);
  if (schema === undefined) throw new Error(`there is no service ${service}`);
  return schema;
}

/** Returns all keys of a service's config. A key that two kinds of list entries share is returned once. */
export function configKeys(service: string): ConfigKey[] {
  return [...new Map(keysOf(configOf(service)).map((key) => [key.path.join("."), key])).values()];
}

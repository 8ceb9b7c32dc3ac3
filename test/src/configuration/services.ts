import { dispatcherConfig } from "@diskmesh/cpi-dispatcher/config";
import { directorConfig } from "@diskmesh/director/config";
import { configSchema as agentConfig } from "@diskmesh/disk-agent/config";
import { configSchema as registryConfig } from "@diskmesh/disk-registry/config";
import { type ConfigKey, type checkConfig, keysOf } from "@diskmesh/service";

type Schema = Parameters<typeof checkConfig>[0];

/** The configs of all services, as their processes read them. */
export const CONFIGS: ReadonlyMap<string, Schema> = new Map<string, Schema>([
  ["director", directorConfig],
  ["cpi-dispatcher", dispatcherConfig],
  ["disk-registry", registryConfig],
  ["disk-agent", agentConfig],
]);

export function configOf(service: string): Schema {
  const schema = CONFIGS.get(service);
  if (schema === undefined) throw new Error(`there is no service ${service}`);
  return schema;
}

/** All keys of a service. The same key of two kinds of entries of a list counts once. */
export function configKeys(service: string): ConfigKey[] {
  return [...new Map(keysOf(configOf(service)).map((key) => [key.path.join("."), key])).values()];
}

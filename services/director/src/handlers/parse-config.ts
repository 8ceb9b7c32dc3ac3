import { InvalidArgumentError, NotFoundError, parseName, quoted } from "@diskmesh/domain";
import type { Config } from "../model/config.js";
import { configKey, type DirectorTables } from "../model/schema.js";
import { CLOUD } from "../yaml/cloud-configs.js";
import { CPI } from "../yaml/cpi-configs.js";
import { latestConfigs } from "../yaml/latest-configs.js";

export type ConfigType = typeof CLOUD | typeof CPI;

export function parseConfigType(value: string): ConfigType {
  if (value === CLOUD || value === CPI) return value;
  throw new InvalidArgumentError(`type ${quoted(value)} is not known: give "${CLOUD}" or "${CPI}"`, {
    about: { field: "type" },
  });
}

export function parseConfigName(value: string): string {
  return value === "" ? "default" : parseName("name", value);
}

export function latestConfig(tables: DirectorTables, type: ConfigType, name: string): Config | undefined {
  return latestConfigs(tables, type).find((other) => other.name === name);
}

/** That version of the config, or the latest one for undefined. */
export function knownConfig(
  tables: DirectorTables,
  type: ConfigType,
  name: string,
  configId: number | undefined,
): Config {
  const config = configId === undefined ? latestConfig(tables, type, name) : tables.configs.get(configKey(configId));
  if (config?.type === type && config.name === name) return config;
  const which = configId === undefined ? "" : ` with id ${configId}`;
  throw new NotFoundError(`there is no ${type} config \`${name}\`${which}`, { about: { type, name } });
}

import { InvalidArgumentError, NotFoundError, parseName, quoted } from "@diskmesh/domain";
import type { Config } from "../store/config.js";
import { configKey, type DirectorTables } from "../store/schema.js";
import { latestConfigs } from "./latest-configs.js";

/** Config types that BOSH applies and this director rejects, so that nobody relies on them. */
export const NOT_HEEDED: readonly string[] = ["deploy", "runtime"];

/**
 * The director applies the types "cloud", "cpi" and "resurrection". Other types are stored without effect, as in BOSH.
 */
export function parseConfigType(value: string): string {
  if (!NOT_HEEDED.includes(value)) return parseName("type", value);
  throw new InvalidArgumentError(`this director does not support configs of type ${quoted(value)}`, {
    about: { field: "type" },
  });
}

export function parseConfigName(value: string): string {
  return value === "" ? "default" : parseName("name", value);
}

export function latestConfig(tables: DirectorTables, type: string, name: string): Config | undefined {
  return latestConfigs(tables, type).find((other) => other.name === name);
}

/** Returns the given version of the config, or the latest version for undefined. Throws NotFoundError. */
export function knownConfig(tables: DirectorTables, type: string, name: string, configId: number | undefined): Config {
  const config = configId === undefined ? latestConfig(tables, type, name) : tables.configs.get(configKey(configId));
  if (config?.type === type && config.name === name) return config;
  const which = configId === undefined ? "" : ` with id ${configId}`;
  throw new NotFoundError(`there is no ${type} config \`${name}\`${which}`, { about: { type, name } });
}

import { InvalidArgumentError, NotFoundError, parseName, quoted } from "@diskmesh/domain";
import type { Config } from "../store/config.js";
import { configKey, type DirectorTables } from "../store/schema.js";
import { latestConfigs } from "./latest-configs.js";

/** BOSH acts on them, and this director does not: nobody is to believe that they were heeded. */
export const NOT_HEEDED: readonly string[] = ["deploy", "runtime"];

/** "cloud", "cpi" and "resurrection" are heeded; others, which no director of BOSH would heed either, are kept for who wrote them. */
export function parseConfigType(value: string): string {
  if (!NOT_HEEDED.includes(value)) return parseName("type", value);
  throw new InvalidArgumentError(`this director makes nothing of configs of type ${quoted(value)}`, {
    about: { field: "type" },
  });
}

export function parseConfigName(value: string): string {
  return value === "" ? "default" : parseName("name", value);
}

export function latestConfig(tables: DirectorTables, type: string, name: string): Config | undefined {
  return latestConfigs(tables, type).find((other) => other.name === name);
}

/** That version of the config, or the latest one for undefined. */
export function knownConfig(tables: DirectorTables, type: string, name: string, configId: number | undefined): Config {
  const config = configId === undefined ? latestConfig(tables, type, name) : tables.configs.get(configKey(configId));
  if (config?.type === type && config.name === name) return config;
  const which = configId === undefined ? "" : ` with id ${configId}`;
  throw new NotFoundError(`there is no ${type} config \`${name}\`${which}`, { about: { type, name } });
}

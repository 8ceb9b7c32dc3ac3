import type { Config } from "../store/config.js";
import { configIdentity, type DirectorTables } from "../store/schema.js";

/** Returns the latest version of every config of a type, or of all types, sorted by type and name. */
export function latestConfigs(tables: DirectorTables, type = ""): Config[] {
  const latest = new Map<string, Config>();
  for (const config of tables.configs.entries()) {
    if (type === "" || config.type === type) latest.set(configIdentity(config), config);
  }
  return [...latest].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, config]) => config);
}

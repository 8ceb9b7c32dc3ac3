import { InvalidArgumentError } from "@diskmesh/domain";
import { type CloudConfig, findDuplicate, mergeCloudConfigs } from "../model/cloud-config.js";
import type { Config } from "../model/config.js";
import type { DirectorTables } from "../schema.js";
import { parseCloudConfig } from "./cloud-config.js";

export const CLOUD = "cloud";

/** The latest version of every config of a type, or of all; in order of type and name. */
export function latestConfigs(tables: DirectorTables, type = ""): Config[] {
  const latest = new Map<string, Config>();
  for (const config of tables.configs.entries()) {
    if (type === "" || config.type === type) latest.set(`${config.type} ${config.name}`, config);
  }
  return [...latest].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, config]) => config);
}

/** All cloud configs as one, read from YAML once per change. */
export class CloudConfigs {
  #read: { readonly lastConfigId: number; readonly config: CloudConfig } | undefined;

  constructor(private readonly sizeBytes: number) {}

  current(tables: DirectorTables): CloudConfig {
    const lastConfigId = tables.counters.get("config")?.value ?? 0;
    if (this.#read?.lastConfigId !== lastConfigId) {
      this.#read = { lastConfigId, config: this.#merge(latestConfigs(tables, CLOUD)) };
    }
    return this.#read.config;
  }

  /** Throws when a new content, together with the other cloud configs, is not valid. */
  check(tables: DirectorTables, name: string, content: string): void {
    this.#merge([...latestConfigs(tables, CLOUD).filter((config) => config.name !== name), { name, content }]);
  }

  #merge(configs: readonly Pick<Config, "name" | "content">[]): CloudConfig {
    const merged = mergeCloudConfigs(
      configs.map((config) =>
        parseCloudConfig(config.content, { what: `cloud config \`${config.name}\``, sizeBytes: this.sizeBytes }),
      ),
    );
    const duplicate = findDuplicate(merged);
    if (duplicate !== undefined) {
      throw new InvalidArgumentError(
        `${duplicate} comes twice in the cloud configs ${configs.map((config) => `\`${config.name}\``).join(", ")}`,
      );
    }
    return merged;
  }
}

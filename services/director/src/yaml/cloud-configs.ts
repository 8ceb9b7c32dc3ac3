import { InvalidArgumentError } from "@diskmesh/domain";
import { type CloudConfig, findDuplicate, mergeCloudConfigs } from "../model/cloud-config.js";
import type { Config } from "../model/config.js";
import type { DirectorTables } from "../schema.js";
import { parseCloudConfig } from "./cloud-config.js";
import { latestConfigs } from "./latest-configs.js";

export const CLOUD = "cloud";

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

  /** Throws when the configs, with a new content for one of them or without it, are not valid. */
  check(tables: DirectorTables, name: string, content: string | undefined): void {
    const others = latestConfigs(tables, CLOUD).filter((config) => config.name !== name);
    this.#merge(content === undefined ? others : [...others, { name, content }]);
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

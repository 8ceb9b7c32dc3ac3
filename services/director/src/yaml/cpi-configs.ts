import type { Config } from "../model/config.js";
import type { CpiNames } from "../model/cpi-choice.js";
import { type CpiDefinition, refuseDuplicateCpis } from "../model/cpi-config.js";
import type { DirectorTables } from "../schema.js";
import { parseCpiConfig } from "./cpi-config.js";
import { latestConfigs } from "./latest-configs.js";

export const CPI = "cpi";

/** All cpi-configs as one. */
export interface MergedCpiConfig extends CpiNames {
  /** Names this set of CPIs. Says nothing of what is in it; empty when there is no cpi-config. */
  readonly version: string;
  readonly cpis: readonly CpiDefinition[] | undefined;
}

/** The cpi-configs put together, read from YAML once per change. */
export class CpiConfigs {
  #read: { readonly lastConfigId: number; readonly config: MergedCpiConfig } | undefined;

  constructor(private readonly sizeBytes: number) {}

  current(tables: DirectorTables): MergedCpiConfig {
    const lastConfigId = tables.counters.get("config")?.value ?? 0;
    if (this.#read?.lastConfigId !== lastConfigId) {
      const configs = latestConfigs(tables, CPI);
      const version = configs.map((config) => config.configId).join("-");
      const cpis = configs.length === 0 ? undefined : this.#merge(configs);
      this.#read = { lastConfigId, config: { version, cpis } };
    }
    return this.#read.config;
  }

  /** Throws when the configs, with a new content for one of them or without it, are not valid. */
  check(tables: DirectorTables, name: string, content: string | undefined): void {
    const others = latestConfigs(tables, CPI).filter((config) => config.name !== name);
    this.#merge(content === undefined ? others : [...others, { name, content }]);
  }

  #merge(configs: readonly Pick<Config, "name" | "content">[]): CpiDefinition[] {
    const cpis = configs.flatMap((config) =>
      parseCpiConfig(config.content, { what: `cpi config \`${config.name}\``, sizeBytes: this.sizeBytes }),
    );
    refuseDuplicateCpis(cpis);
    return cpis;
  }
}

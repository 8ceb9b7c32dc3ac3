import type { CpiNames } from "../specs/cpi-choice.js";
import { type CpiDefinition, refuseDuplicateCpis } from "../specs/cpi-config.js";
import type { Config } from "../store/config.js";
import type { TextLimits } from "../yaml/document.js";
import type { YamlReader } from "../yaml/reader.js";
import { Configs, type NamedPart } from "./configs.js";

export const CPI = "cpi";

export interface MergedCpiConfig extends CpiNames {
  /** Identifies this set of CPIs without describing its content. Empty when there is no cpi-config. */
  readonly version: string;
  readonly cpis: readonly CpiDefinition[] | undefined;
}

export class CpiConfigs extends Configs<readonly CpiDefinition[], MergedCpiConfig> {
  constructor(reader: YamlReader, limits: Omit<TextLimits, "what">) {
    super({
      type: CPI,
      reader,
      limits,
      read: (reader, text, limits, options) => reader.read({ format: "cpi_config", text, limits }, options),
      merge,
    });
  }
}

function merge(parts: readonly NamedPart<readonly CpiDefinition[]>[], configs: readonly Config[]): MergedCpiConfig {
  const cpis = parts.flatMap(({ part }) => part);
  refuseDuplicateCpis(cpis);
  return { version: configs.map((config) => config.configId).join("-"), cpis: parts.length === 0 ? undefined : cpis };
}

import { InvalidArgumentError } from "@diskmesh/domain";
import { type CloudConfig, findDuplicate, mergeCloudConfigs } from "../specs/cloud-config.js";
import type { TextLimits } from "../yaml/document.js";
import type { YamlReader } from "../yaml/reader.js";
import { Configs, type NamedPart } from "./configs.js";

export const CLOUD = "cloud";

export class CloudConfigs extends Configs<CloudConfig, CloudConfig> {
  constructor(reader: YamlReader, limits: Omit<TextLimits, "what">) {
    super({
      type: CLOUD,
      reader,
      limits,
      read: (reader, text, limits, options) => reader.read({ format: "cloud_config", text, limits }, options),
      merge,
    });
  }
}

function merge(parts: readonly NamedPart<CloudConfig>[]): CloudConfig {
  const merged = mergeCloudConfigs(parts.map(({ part }) => part));
  const duplicate = findDuplicate(merged);
  if (duplicate === undefined) return merged;
  const names = parts.map(({ name }) => `\`${name}\``).join(", ");
  throw new InvalidArgumentError(`${duplicate} comes twice in the cloud configs ${names}`, {
    about: { field: "content" },
  });
}

import { z } from "zod";
import type { CloudConfig } from "../model/cloud-config.js";
import { parseYaml, type TextLimits } from "./document.js";
import { nameSchema, propertiesSchema } from "./schema.js";

// BOSH's other keys (vm_types, networks, compilation, ...) and keys within these are let be, so that one cloud config serves both.
const cloudConfigSchema = z.looseObject({
  azs: z
    .array(
      z.looseObject({
        name: nameSchema,
        cloud_properties: propertiesSchema.nullish(),
        cpi: nameSchema.nullish(),
      }),
    )
    .nullish(),
  disk_types: z
    .array(
      z.looseObject({
        name: nameSchema,
        disk_size: z.int().min(1),
        cloud_properties: propertiesSchema.nullish(),
      }),
    )
    .nullish(),
});

/** One cloud config in BOSH's format. */
export function parseCloudConfig(content: string, limits: TextLimits): CloudConfig {
  const parsed = parseYaml(content, cloudConfigSchema, limits);
  return {
    azs: (parsed.azs ?? []).map((az) => ({
      name: az.name,
      cloudProperties: az.cloud_properties ?? {},
      cpi: az.cpi ?? "",
    })),
    diskTypes: (parsed.disk_types ?? []).map((type) => ({
      name: type.name,
      sizeMib: type.disk_size,
      cloudProperties: type.cloud_properties ?? {},
    })),
  };
}

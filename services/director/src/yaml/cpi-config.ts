import { z } from "zod";
import type { CpiDefinition } from "../model/cpi-config.js";
import { parseYaml, type TextLimits } from "./document.js";
import { nameSchema, propertiesSchema } from "./schema.js";

const cpiConfigSchema = z.strictObject({
  cpis: z.array(
    z.strictObject({
      name: nameSchema,
      type: nameSchema,
      exec_path: z.string().min(1).max(4_096).startsWith("/", "give an absolute path").nullish(),
      // The empty name stands for the default CPI.
      migrated_from: z.array(z.strictObject({ name: z.union([z.literal(""), nameSchema]) })).nullish(),
      properties: propertiesSchema.nullish(),
    }),
  ),
});

/** One cpi-config in BOSH's format. */
export function parseCpiConfig(content: string, limits: Omit<TextLimits, "holdsSecrets">): CpiDefinition[] {
  const parsed = parseYaml(content, cpiConfigSchema, { ...limits, holdsSecrets: true });
  return parsed.cpis.map((cpi) => ({
    name: cpi.name,
    type: cpi.type,
    execPath: cpi.exec_path ?? "",
    migratedFrom: (cpi.migrated_from ?? []).map((former) => former.name),
    properties: cpi.properties ?? {},
  }));
}

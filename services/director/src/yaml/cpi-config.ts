import { CPI_NAME_PATTERN, CPI_NAME_RULE } from "@diskmesh/cpi";
import { InvalidArgumentError } from "@diskmesh/domain";
import * as z from "zod";
import type { CpiDefinition } from "../specs/cpi-config.js";
import { parseYaml, type TextLimits } from "./document.js";
import { propertiesSchema } from "./schema.js";
import { variableIssues } from "./variables.js";

const cpiName = z.string().regex(CPI_NAME_PATTERN, CPI_NAME_RULE);

const cpiConfigSchema = z.strictObject({
  cpis: z
    .array(
      z.strictObject({
        name: cpiName,
        type: cpiName,
        exec_path: z.string().min(1).max(4_096).startsWith("/", "give an absolute path").nullish(),
        // The empty name is the default CPI.
        migrated_from: z.array(z.strictObject({ name: z.union([z.literal(""), cpiName]) })).nullish(),
        properties: propertiesSchema.nullish(),
      }),
    )
    .min(1, "give at least one CPI"),
});

/** Maximum CPIs in a config, because every CPI operation scans them. */
const MAX_CPIS = 1_000;

/** Parses a cpi-config in BOSH's format. */
export function parseCpiConfig(content: string, limits: Omit<TextLimits, "holdsSecrets">): CpiDefinition[] {
  const checks = { knownKeys: ["cpis"], issuesOf: variableIssues };
  const parsed = parseYaml(content, cpiConfigSchema, { ...limits, holdsSecrets: true }, checks);
  if (!limits.stored && parsed.cpis.length > MAX_CPIS) {
    throw new InvalidArgumentError(`the ${limits.what} has ${parsed.cpis.length} CPIs: the limit is ${MAX_CPIS}`);
  }
  return parsed.cpis.map((cpi) => ({
    name: cpi.name,
    type: cpi.type,
    execPath: cpi.exec_path ?? "",
    migratedFrom: (cpi.migrated_from ?? []).map((former) => former.name),
    properties: cpi.properties ?? {},
  }));
}

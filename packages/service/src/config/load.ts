import { dirname } from "node:path";
import { secretsNamedIn } from "@diskmesh/domain";
import type * as z from "zod";
import { ConfigError } from "./config-error.js";
import { readConfigFile } from "./file.js";
import { problemsOf } from "./issues.js";
import { fromConfigFolder, withConfigFolder } from "./path.js";
import { placesIn } from "./places.js";
import { pathText, peel } from "./schema.js";
import { type Findings, tooOpen, withSecretFiles } from "./secret-files.js";

export interface LoadedConfig<Config> {
  readonly config: Config;
  /** Problems that do not prevent the start, but that somebody should fix. */
  readonly warnings: readonly string[];
}

/**
 * Loads a config from its YAML file and the secrets' files. Refuses keys that the schema does not know. Throws
 * ConfigError with all problems.
 */
export function loadConfig<Schema extends z.ZodType>(schema: Schema, file: string): LoadedConfig<z.output<Schema>> {
  const { config, problems, warnings } = examined(schema, file, { checksFiles: false });
  if (problems.length > 0) throw new ConfigError(`config ${file}: ${problems.join("; ")}`, { problems });
  return { config: config as z.output<Schema>, warnings };
}

/** Returns all problems of a config, including the files that it names. */
export function checkConfig(schema: z.ZodType, file: string): Findings {
  try {
    return examined(schema, file, { checksFiles: true });
  } catch (error) {
    if (error instanceof ConfigError) return { problems: [...error.problems], warnings: [] };
    throw error;
  }
}

function examined(
  schema: z.ZodType,
  file: string,
  { checksFiles }: { readonly checksFiles: boolean },
): Findings & { readonly config: unknown } {
  const content = readConfigFile(file);
  return withConfigFolder(dirname(file), () => {
    const findings: Findings = { problems: [], warnings: [] };
    const resolved = withSecretFiles(content, schema, findings);
    const parsed = schema.safeParse(resolved, { reportInput: true });
    if (!parsed.success) findings.problems.push(...problemsOf(parsed.error.issues, schema));
    findings.warnings.push(...openSecrets(file, schema, content));
    if (checksFiles) findings.problems.push(...wrongFiles(schema, resolved));
    return { ...findings, config: parsed.data };
  });
}

function openSecrets(file: string, schema: z.ZodType, content: unknown): string[] {
  const warnings: string[] = [];
  for (const { facts, value, path } of placesIn(schema, content)) {
    const holdsIt = facts.secret === "wholly" || (facts.secret === "partly" && secretsNamedIn(value).length > 0);
    const isPath = facts.isPrivateFile && typeof value === "string";
    const holder = holdsIt ? file : isPath ? fromConfigFolder(value) : undefined;
    const warning = holder && tooOpen(holder);
    if (warning) warnings.push(`${pathText(path)}: ${warning}`);
  }
  return warnings;
}

/** Checks the files that valid parts of the config name, even when other parts are wrong. */
function wrongFiles(schema: z.ZodType, content: unknown): string[] {
  const problems: string[] = [];
  for (const { path, schema: given, value } of placesIn(schema, content)) {
    const { facts } = peel(given);
    if (facts.checkFiles === undefined) continue;
    const parsed = (given as z.ZodType).safeParse(value);
    if (!parsed.success) continue;
    const check = facts.checkFiles as (value: unknown, config: unknown) => readonly string[];
    problems.push(...check(parsed.data, content).map((problem) => `${pathText(path)}: ${problem}`));
  }
  return problems;
}

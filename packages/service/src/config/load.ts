import { dirname } from "node:path";
import { secretsNamedIn } from "@diskmesh/domain";
import type * as z from "zod";
import { ConfigError } from "./config-error.js";
import { type Overridden, overridden } from "./environment.js";
import { readConfigFile } from "./file.js";
import { problemsOf } from "./issues.js";
import { fromConfigFolder, withConfigFolder } from "./path.js";
import { placesIn } from "./places.js";
import { pathText, peel } from "./schema.js";
import { type Findings, tooOpen, withSecretFiles } from "./secret-files.js";

export interface ConfigSource {
  /** E.g. "disk-agent". */
  readonly service: string;
  readonly file: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export interface LoadedConfig<Config> {
  readonly config: Config;
  /** Problems that do not prevent the start, but that somebody should fix. */
  readonly warnings: readonly string[];
}

/**
 * Loads a config from its file, the environment, which takes precedence, and the secrets' files. Refuses keys and
 * variables that the schema does not know. Throws ConfigError with all problems.
 */
export function loadConfig<Schema extends z.ZodType>(
  schema: Schema,
  source: ConfigSource,
): LoadedConfig<z.output<Schema>> {
  const { config, problems, warnings } = examined(schema, source, { checksFiles: false });
  if (problems.length > 0) throw new ConfigError(`config ${source.file}: ${problems.join("; ")}`, { problems });
  return { config: config as z.output<Schema>, warnings };
}

/** Returns all problems of a config, including the files that it names. */
export function checkConfig(schema: z.ZodType, source: ConfigSource): Findings {
  try {
    return examined(schema, source, { checksFiles: true });
  } catch (error) {
    if (error instanceof ConfigError) return { problems: [...error.problems], warnings: [] };
    throw error;
  }
}

function examined(
  schema: z.ZodType,
  { service, file, env }: ConfigSource,
  { checksFiles }: { readonly checksFiles: boolean },
): Findings & { readonly config: unknown } {
  const written = readConfigFile(file);
  return withConfigFolder(dirname(file), () => {
    const { content, origins, problems: ofVariables }: Overridden = overridden(written, service, schema, env);
    const findings: Findings = { problems: [...ofVariables], warnings: [] };
    const resolved = withSecretFiles(content, schema, findings);
    const parsed = schema.safeParse(resolved, { reportInput: true });
    if (!parsed.success) findings.problems.push(...problemsOf(parsed.error.issues, schema, origins));
    findings.warnings.push(...openSecrets(file, schema, content, origins));
    if (checksFiles) findings.problems.push(...wrongFiles(schema, resolved));
    return { ...findings, config: parsed.data };
  });
}

function openSecrets(
  file: string,
  schema: z.ZodType,
  content: unknown,
  origins: ReadonlyMap<string, string>,
): string[] {
  const warnings: string[] = [];
  for (const { facts, value, path } of placesIn(schema, content)) {
    const holdsIt = facts.secret === "wholly" || (facts.secret === "partly" && secretsNamedIn(value).length > 0);
    const isPath = facts.isPrivateFile && typeof value === "string";
    const isInFile = holdsIt && !origins.has(pathText(path));
    const holder = isInFile ? file : isPath ? fromConfigFolder(value) : undefined;
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
    const check = facts.checkFiles as (value: unknown) => readonly string[];
    problems.push(...check(parsed.data).map((problem) => `${pathText(path)}: ${problem}`));
  }
  return problems;
}

import { nearestOf } from "@diskmesh/domain";
import * as z from "zod";
import { parseYaml } from "./file.js";
import { type ConfigKey, fileKey, keysOf } from "./keys.js";
import { isMapping } from "./places.js";
import { fileKeyOf, pathText, peel } from "./schema.js";

type Environment = Readonly<Record<string, string | undefined>>;

/** An environment variable that sets a config key. */
export interface Variable {
  readonly name: string;
  readonly key: ConfigKey;
  /**
   * Path of the config value that the variable sets. Differs from the key's path for the variable of a secret's file.
   */
  readonly path: readonly string[];
}

/** Returns e.g. "DISKMESH_DISK_AGENT_". */
const prefixOf = (service: string): string => `DISKMESH_${service.replaceAll("-", "_").toUpperCase()}_`;

/** Returns the variables of a service: one for each key that has a value and is in no list. */
export function variablesOf(service: string, schema: z.core.$ZodType): Variable[] {
  const keys = keysOf(schema).filter(({ path, isGroup }) => !isGroup && !path.some((part) => part.endsWith("[]")));
  return keys.flatMap((key) =>
    [key.path, fileKey(key)]
      .filter((path) => path !== undefined)
      .map((path) => ({ name: prefixOf(service) + path.map(upperCase).join("_"), key, path })),
  );
}

const upperCase = (name: string): string => name.replace(/([a-z0-9])([A-Z])/g, "$1_$2").toUpperCase();

/**
 * Suffixes of the variables that Kubernetes sets in each container for a Service with the name of a diskmesh service.
 */
const OF_KUBERNETES = /^(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/;

export interface Overridden {
  readonly content: unknown;
  /** Applied variables, by the path of their values. */
  readonly origins: ReadonlyMap<string, string>;
  readonly problems: readonly string[];
}

/** Returns the config in which environment variables replace values of the file. */
export function overridden(content: unknown, service: string, schema: z.core.$ZodType, env: Environment): Overridden {
  const prefix = prefixOf(service);
  const variables = new Map(variablesOf(service, schema).map((variable) => [variable.name, variable]));
  const origins = new Map<string, string>();
  const problems: string[] = [];
  let changed = content;
  for (const [name, text] of Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (text === undefined || !name.startsWith(prefix) || OF_KUBERNETES.test(name.slice(prefix.length))) continue;
    const variable = variables.get(name);
    if (variable === undefined) {
      // Only the part after the prefix is compared: the common prefix makes all names look similar.
      const known = [...variables.keys()].map((each) => each.slice(prefix.length));
      const nearest = nearestOf(name.slice(prefix.length, 200), known);
      problems.push(`${name}: no key has this variable; ${nearest ? `did you mean ${prefix}${nearest}?` : "unset it"}`);
      continue;
    }
    try {
      changed = put(changed, variable.path, meantBy(variable, text));
      origins.set(pathText(variable.path), name);
    } catch (error) {
      problems.push((error as Error).message);
    }
  }
  return { content: changed, origins, problems };
}

/** Parses a variable's text: as text for keys that take text, as YAML for all others. */
function meantBy({ name, key, path }: Variable, text: string): unknown {
  if (path !== key.path) return text;
  const { schema } = peel(key.schema);
  const isText = schema instanceof z.ZodString || schema instanceof z.ZodStringFormat || schema instanceof z.ZodEnum;
  if (isText || (schema instanceof z.ZodUnion && !/^\s*[[{]/.test(text))) return text;
  return parseYaml(text, name);
}

function put(content: unknown, [first = "", ...rest]: readonly string[], value: unknown): unknown {
  // A value that is no mapping stays, so that the schema reports it.
  if (content !== undefined && content !== null && !isMapping(content)) return content;
  const within = { ...content };
  if (rest.length > 0) return { ...within, [first]: put(within[first], rest, value) };
  // A variable sets a secret either as a value or as the path of its file. Each of these forms replaces both forms in
  // the config file.
  delete within[fileKeyOf(first)];
  if (first.endsWith("File")) delete within[first.slice(0, -"File".length)];
  return { ...within, [first]: value };
}

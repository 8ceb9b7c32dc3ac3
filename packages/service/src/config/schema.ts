import * as z from "zod";

/** Facts about a key beside its allowed values; `.describe` adds its meaning. */
export interface KeyFacts {
  readonly description?: string;
  /** Kind of a text value, e.g. "path" or "host:port". */
  readonly kind?: string;
  /**
   * A secret is never shown and may be in a file: the key with the suffix `File` names the file. "partly" marks a value
   * that may contain a secret, such as a database's address.
   */
  readonly secret?: "wholly" | "partly";
  /** True when a running process reloads the key on SIGHUP. */
  readonly reloads?: boolean;
  /** The value names a file that contains a secret, such as a private key. */
  readonly isPrivateFile?: boolean;
  /** Returns the problems of the files that the parsed value names. `config` is the whole config, which may be wrong. */
  readonly checkFiles?: (value: never, config: unknown) => readonly string[];
}

/** Attaches facts to a schema, for `--help`, checks and redaction. */
export function withFacts<Schema extends z.ZodType>(schema: Schema, facts: KeyFacts): Schema {
  return schema.meta({ ...facts });
}

/** Marks a value as secret: it is redacted, and a file may contain it. */
export const secretConfig = <Schema extends z.ZodType>(schema: Schema): Schema =>
  withFacts(schema, { secret: "wholly" });

/** Marks a key's value as one that may contain a secret. */
export const partlySecretConfig = <Schema extends z.ZodType>(schema: Schema): Schema =>
  withFacts(schema, { secret: "partly" });

/** A schema without its optional and default wrappers. */
export interface Peeled {
  readonly schema: z.core.$ZodType;
  readonly facts: KeyFacts;
  readonly isOptional: boolean;
  /** Undefined when the key has no default. */
  readonly defaultValue: unknown;
}

export function peel(given: z.core.$ZodType): Peeled {
  let schema = given;
  let facts: KeyFacts = {};
  let isOptional = false;
  let defaultValue: unknown;
  for (;;) {
    facts = { ...(z.globalRegistry.get(schema) as KeyFacts | undefined), ...facts };
    if (schema instanceof z.ZodOptional) {
      isOptional = true;
      schema = schema.def.innerType;
    } else if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
      isOptional = true;
      defaultValue ??= schema.def.defaultValue;
      schema = schema.def.innerType;
    } else if (schema instanceof z.ZodPipe) schema = schema.def.in;
    else return { schema, facts, isOptional, defaultValue };
  }
}

/** Returns the keys of a mapping, or of all mappings of a union; undefined when the schema allows none. */
export function shapeOf(schema: z.core.$ZodType): ReadonlyMap<string, z.core.$ZodType> | undefined {
  if (schema instanceof z.ZodObject) return new Map(Object.entries(schema.def.shape));
  if (!(schema instanceof z.ZodUnion)) return undefined;
  const shapes = schema.def.options
    .map((option) => shapeOf(peel(option).schema))
    .filter((shape) => shape !== undefined);
  return shapes.length === 0 ? undefined : new Map(shapes.flatMap((shape) => [...shape]));
}

/** Returns the schema of a list's entries; undefined when the schema allows no list. */
export function elementOf(schema: z.core.$ZodType): z.core.$ZodType | undefined {
  if (schema instanceof z.ZodArray) return schema.def.element;
  if (!(schema instanceof z.ZodUnion)) return undefined;
  return schema.def.options.map((option) => elementOf(peel(option).schema)).find((element) => element !== undefined);
}

/** Returns the key that names the file of a secret. */
export const fileKeyOf = (name: string): string => `${name}File`;

/** Formats a path in a config for messages and documents, e.g. "http.users.0.name". */
export const pathText = (path: readonly PropertyKey[]): string => path.map(String).join(".");

import * as z from "zod";

/** What a key's schema says of the key beside its values. `.describe` says what it means. */
export interface KeyFacts {
  readonly description?: string;
  /** What stands there, where the kind of the value alone does not say it: "path", "host:port". */
  readonly kind?: string;
  /**
   * A value that is never shown, and that a file may hold in its place: the key with `File` behind names the file.
   * "partly" is one that holds a secret at times, as a database's address does.
   */
  readonly secret?: "wholly" | "partly";
  /** Taken up by a running process on SIGHUP. */
  readonly reloads?: boolean;
  /** The version that had it first, where that is not 0.1.0. */
  readonly since?: string;
  /** It names a file that holds a secret, such as a private key. */
  readonly isPrivateFile?: boolean;
  /** What is wrong with the files that the value names. It gets what the schema makes of the value. */
  readonly checkFiles?: (value: never) => readonly string[];
}

/** Gives a schema further facts. */
export function withFacts<Schema extends z.ZodType>(schema: Schema, facts: KeyFacts): Schema {
  return schema.meta({ ...facts });
}

/** A key whose value nobody may see. */
export const secretConfig = <Schema extends z.ZodType>(schema: Schema): Schema =>
  withFacts(schema, { secret: "wholly" });

/** A key whose value may hold a secret among other things. */
export const partlySecretConfig = <Schema extends z.ZodType>(schema: Schema): Schema =>
  withFacts(schema, { secret: "partly" });

/** A schema without what only says that it may be left out. */
export interface Peeled {
  readonly schema: z.core.$ZodType;
  readonly facts: KeyFacts;
  readonly isOptional: boolean;
  /** Undefined for none. */
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

/** The keys of a mapping, or of all mappings that may stand there; undefined where none may. */
export function shapeOf(schema: z.core.$ZodType): ReadonlyMap<string, z.core.$ZodType> | undefined {
  if (schema instanceof z.ZodObject) return new Map(Object.entries(schema.def.shape));
  if (!(schema instanceof z.ZodUnion)) return undefined;
  const shapes = schema.def.options
    .map((option) => shapeOf(peel(option).schema))
    .filter((shape) => shape !== undefined);
  return shapes.length === 0 ? undefined : new Map(shapes.flatMap((shape) => [...shape]));
}

/** What the entries of a list are; undefined where no list may stand. */
export function elementOf(schema: z.core.$ZodType): z.core.$ZodType | undefined {
  if (schema instanceof z.ZodArray) return schema.def.element;
  if (!(schema instanceof z.ZodUnion)) return undefined;
  return schema.def.options.map((option) => elementOf(peel(option).schema)).find((element) => element !== undefined);
}

/** The key that names a file in place of a value. */
export const fileKeyOf = (name: string): string => `${name}File`;

/** "http.users.0.name", as messages and documents name a place in a config. */
export const pathText = (path: readonly PropertyKey[]): string => path.map(String).join(".");

import type * as z from "zod";
import { elementOf, type KeyFacts, peel, shapeOf } from "./schema.js";

export const isMapping = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export interface Place {
  readonly path: readonly PropertyKey[];
  readonly schema: z.core.$ZodType;
  readonly facts: KeyFacts;
  readonly value: unknown;
}

/** Yields all values of a config that the schema knows, valid or not, each after its parent. */
export function* placesIn(
  schema: z.core.$ZodType,
  value: unknown,
  path: readonly PropertyKey[] = [],
): Generator<Place> {
  const { schema: peeled, facts } = peel(schema);
  yield { path, schema, facts, value };
  if (Array.isArray(value)) {
    const element = elementOf(peeled);
    if (element !== undefined)
      for (const [index, each] of value.entries()) yield* placesIn(element, each, [...path, index]);
  } else if (isMapping(value))
    for (const [name, within] of shapeOf(peeled) ?? [])
      if (Object.hasOwn(value, name)) yield* placesIn(within, value[name], [...path, name]);
}

/** Yields the schemas along a path, as far as they exist. */
export function* schemasTo(schema: z.core.$ZodType, path: readonly PropertyKey[]): Generator<z.core.$ZodType> {
  yield schema;
  let current: z.core.$ZodType | undefined = schema;
  for (const step of path) {
    const { schema: peeled }: { schema: z.core.$ZodType } = peel(current);
    current = typeof step === "number" ? elementOf(peeled) : shapeOf(peeled)?.get(String(step));
    if (current === undefined) return;
    yield current;
  }
}

/** Returns whether the value, or its parent, may contain a secret. */
export function isSecretAt(schema: z.core.$ZodType, path: readonly PropertyKey[]): boolean {
  for (const one of schemasTo(schema, path)) if (peel(one).facts.secret !== undefined) return true;
  return false;
}

/** Returns all values of a config that its schema marks as secret. */
export function secretsOf(schema: z.core.$ZodType, config: unknown): unknown[] {
  return [...placesIn(schema, config)].filter(({ facts }) => facts.secret === "wholly").map(({ value }) => value);
}

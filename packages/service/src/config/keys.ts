import * as z from "zod";
import { elementOf, fileKeyOf, type KeyFacts, peel, shapeOf } from "./schema.js";

/** A key of a config, for documents and `--help`. */
export interface ConfigKey {
  /** `[]` stands for each entry of a list: ["http", "users[]", "name"]. */
  readonly path: readonly string[];
  /** Description for people: "whole number from 1 to 65535". */
  readonly type: string;
  /** Unit of the value, derived from the key's name; empty for none. */
  readonly unit: string;
  /** True when the key is required wherever its parent is given. */
  readonly isRequired: boolean;
  /** Undefined when the key has no default. */
  readonly defaultValue: unknown;
  /** True for a key that contains further keys and has no value of its own. */
  readonly isGroup: boolean;
  readonly facts: KeyFacts;
  readonly schema: z.core.$ZodType;
}

/** Returns all keys of a config, each after its parent. */
export function keysOf(schema: z.core.$ZodType, above: readonly string[] = []): ConfigKey[] {
  const shape = shapeOf(peel(schema).schema) ?? new Map<string, z.core.$ZodType>();
  return [...shape].flatMap(([name, given]) => {
    const peeled = peel(given);
    const element = elementOf(peeled.schema);
    const path = [...above, name];
    const within = element === undefined ? keysOf(given, path) : keysOf(element, [...above, `${name}[]`]);
    const isGroup = element === undefined && within.length > 0;
    const { facts, isOptional: isLeftOut, defaultValue } = peeled;
    const type = typeOf(peeled.schema, facts);
    const isRequired = !isLeftOut;
    return [{ path, type, unit: unitOf(name), isRequired, defaultValue, isGroup, facts, schema: given }, ...within];
  });
}

/** Returns the path of the key that names a secret's file. */
export function fileKey({ path, facts }: ConfigKey): readonly string[] | undefined {
  return facts.secret && [...path.slice(0, -1), fileKeyOf(path.at(-1) ?? "")];
}

const UNITS: readonly (readonly [RegExp, string])[] = [
  [/BytesPerSecond$/, "bytes a second"],
  [/PerSecond$/, "a second"],
  [/Ms$/, "ms"],
  [/Days$/, "days"],
  [/Mib$/, "MiB"],
  [/[bB]ytes$|Bytes[A-Z]\w*$/, "bytes"],
];

function unitOf(name: string): string {
  return UNITS.find(([pattern]) => pattern.test(name))?.[1] ?? "";
}

/** Describes the allowed values, for people. */
export function typeOf(schema: z.core.$ZodType, facts: KeyFacts = {}): string {
  if (facts.kind !== undefined) return facts.kind;
  if (schema instanceof z.ZodBoolean) return "true or false";
  if (schema instanceof z.ZodNumber) return numberType(schema);
  if (schema instanceof z.ZodEnum) return schema.options.map((option) => `\`${option}\``).join(", ");
  if (schema instanceof z.ZodLiteral) return [...schema.values].map((value) => `\`${value}\``).join(", ");
  if (schema instanceof z.ZodURL) return "URL";
  if (schema instanceof z.ZodArray) {
    const { schema: element, facts: ofElement } = peel(schema.def.element);
    return `list, each ${typeOf(element, ofElement)}`;
  }
  if (schema instanceof z.ZodUnion) {
    const types = schema.def.options.map((option) => {
      const { schema: one, facts: ofOne } = peel(option);
      return typeOf(one, ofOne);
    });
    return [...new Set(types)].join("; or ");
  }
  if (schema instanceof z.ZodObject || schema instanceof z.ZodRecord) return "mapping";
  if (schema instanceof z.ZodString) return "text";
  return "anything";
}

/** Returns the type as plain text without Markdown. */
export const plainType = (type: string): string => type.replaceAll("`", "");

/** Maximum of Node's timers. A key's maximum from this value on says nothing about the key and is not shown. */
const LARGEST_TIMER_MS = 2_147_483_647;

function numberType(schema: z.ZodNumber): string {
  const isWhole = schema.format === "safeint";
  const { minValue, maxValue } = schema;
  const hasMin = minValue !== null && minValue > Number.MIN_SAFE_INTEGER;
  const hasMax = maxValue !== null && maxValue < LARGEST_TIMER_MS;
  const from = hasMin ? ` from ${minValue}` : "";
  return `${isWhole ? "whole number" : "number"}${from}${hasMax ? ` to ${maxValue}` : ""}`;
}

import { MAX_JSON_DEPTH, messageOf } from "@diskmesh/domain";
import { type Document, isAlias, isMap, isScalar, type Node, type Scalar, visit, type YAMLMap } from "yaml";

/** Maximum nesting of lists and mappings. Tags are nested two levels deeper in a VM's env. */
export const MAX_YAML_DEPTH = MAX_JSON_DEPTH - 1;
/** Maximum uses of an anchor. The uses of nested anchors multiply. */
const MAX_ALIASES = 10_000;
/** Maximum merge keys (`<<`), limited because the library recurses into merged mappings. */
const MAX_MERGE_KEYS = 1_000;
/** Maximum size of a value as JSON, measured approximately. The director's event loop parses this JSON. */
const MAX_EXPANDED_BYTES = 3 * 1024 * 1024;
/** Bytes of the quotes, comma and colon that JSON adds to a value. */
const JSON_EXTRA_BYTES = 4;

/** An unusable text, with the offset if known. The message never quotes the text. */
export class YamlError extends Error {
  override readonly name = "YamlError";

  constructor(
    message: string,
    readonly offset?: number,
    readonly verdict: "is not valid YAML" | "cannot be read" = "is not valid YAML",
  ) {
    super(message);
  }
}

/**
 * Returns a document's value. For a new text, aliases and expanded size are limited, and integers that would lose
 * digits are refused, because a CPI would receive another number. Throws YamlError.
 */
export function plainValue(document: Document.Parsed, { isNew }: { readonly isNew: boolean }): unknown {
  refuseFaults(document, isNew);
  const value = toValue(document, isNew ? MAX_ALIASES : -1);
  const { sizeBytes } = new Measure().of(value, 0);
  if (!isNew || sizeBytes <= MAX_EXPANDED_BYTES) return value;
  const text = `it has too many bytes once its aliases are expanded: the limit is ${MAX_EXPANDED_BYTES}`;
  throw new YamlError(text, undefined, "cannot be read");
}

function refuseFaults(document: Document.Parsed, isNew: boolean): void {
  const anchors = new Map<string, Node>();
  let mergeKeys = 0;
  visit(document, {
    Node: (_, node, path) => {
      const refuse = (message: string): never => {
        throw new YamlError(message, node.range?.[0]);
      };
      if (isAlias(node)) {
        const anchored = anchors.get(node.source) ?? refuse("an alias has no anchor before it");
        if (path.includes(anchored)) refuse("an alias refers to a value that contains the alias");
        return;
      }
      if (node.anchor) anchors.set(node.anchor, node);
      if (isMap(node)) refuseTwice(node);
      if (isScalar(node) && typeof node.value === "symbol" && ++mergeKeys > MAX_MERGE_KEYS)
        refuse(`it has too many merge keys: the limit is ${MAX_MERGE_KEYS}`);
      if (isNew && isScalar(node) && losesDigits(node))
        refuse("a whole number beyond 2^53 would lose digits: put it in quotes, as a text");
    },
  });
}

function refuseTwice({ items }: YAMLMap): void {
  const keys = new Set<unknown>();
  for (const { key } of items) {
    if (!isScalar(key)) continue;
    if (keys.has(key.value)) throw new YamlError("the keys of a mapping must be unique", key.range?.[0]);
    keys.add(key.value);
  }
}

function toValue(document: Document.Parsed, maxAliasCount: number): unknown {
  try {
    return document.toJS({ maxAliasCount });
  } catch (error) {
    throw new YamlError(messageOf(error));
  }
}

export function tooDeep(offset?: number): YamlError {
  return new YamlError(`it is nested too deep: the limit is ${MAX_YAML_DEPTH}`, offset, "cannot be read");
}

/** Measures values. Shared aliases are measured once and counted for each use. */
class Measure {
  readonly #known = new Map<object, { readonly height: number; readonly sizeBytes: number }>();

  /** Throws YamlError for nesting beyond the limit; `depth` is the nesting around the value. */
  of(value: unknown, depth: number): { readonly height: number; readonly sizeBytes: number } {
    if (typeof value === "string") return { height: 0, sizeBytes: value.length + JSON_EXTRA_BYTES };
    if (typeof value !== "object" || value === null) return { height: 0, sizeBytes: JSON_EXTRA_BYTES };
    const known = this.#known.get(value);
    if (depth + (known?.height ?? 1) > MAX_YAML_DEPTH) throw tooDeep();
    if (known !== undefined) return known;
    let height = 0;
    let sizeBytes = JSON_EXTRA_BYTES;
    for (const [key, inner] of Object.entries(value)) {
      const of = this.of(inner, depth + 1);
      height = Math.max(height, of.height);
      sizeBytes += of.sizeBytes + (Array.isArray(value) ? 0 : key.length + JSON_EXTRA_BYTES);
    }
    const measured = { height: height + 1, sizeBytes };
    this.#known.set(value, measured);
    return measured;
  }
}

function losesDigits({ value, source }: Scalar): boolean {
  return Number.isInteger(value) && !Number.isSafeInteger(value) && WHOLE_NUMBER.test(source ?? "");
}

/** Matches integers only. 1e300 is accepted, because its exact digits do not matter. */
const WHOLE_NUMBER = /^[-+]?(?:0[xX][0-9a-fA-F_]+|0[ob][0-7_]+|[0-9][0-9_:]*)$/;

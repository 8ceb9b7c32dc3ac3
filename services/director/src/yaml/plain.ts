import {
  type Document,
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  type Pair,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from "yaml";
import { YamlLimitError, type YamlLimits } from "./limits.js";
import { YamlError } from "./tokens.js";

/** What a value takes beside its text, and what a key, a list and a mapping take beside that: time, above all. */
const VALUE_BYTES = 4;
const KEY_BYTES = 12;
const COLLECTION_BYTES = 16;

/** What an anchor names. */
interface Anchored {
  readonly value: unknown;
  readonly height: number;
  readonly sizeBytes: number;
}

/**
 * The value of a document, in time linear in its expanded size; of one that is new whole numbers that would lose digits
 * are refused: a CPI would be told another number. Throws YamlLimitError, or YamlError for aliases and
 * keys that mean nothing.
 */
export function plainValue(document: Document.Parsed, limits: YamlLimits, { isNew = false } = {}): unknown {
  return new PlainValue(limits, isNew).of(document.contents, 0).value;
}

class PlainValue {
  readonly #limits: YamlLimits;
  /** Null while what it names is being read. An anchor that comes again names something else from there on. */
  readonly #anchors = new Map<string, Anchored | null>();
  readonly #keys = new Set<string>();
  #sizeBytes = 0;
  #aliases = 0;
  #mergeKeys = 0;

  constructor(
    limits: YamlLimits,
    private readonly isNew: boolean,
  ) {
    this.#limits = limits;
  }

  /** A node's value, and how many lists and mappings are inside each other in it. */
  of(node: unknown, depth: number): { readonly value: unknown; readonly height: number } {
    if (isAlias(node)) return this.#alias(node.source, offsetOf(node), depth);
    const anchor = (isScalar(node) || isMap(node) || isSeq(node)) && node.anchor;
    if (!anchor) return this.#unnamed(node, depth);
    const before = this.#sizeBytes;
    this.#anchors.set(anchor, null);
    const { value, height } = this.#unnamed(node, depth);
    this.#anchors.set(anchor, { value, height, sizeBytes: this.#sizeBytes - before });
    return { value, height };
  }

  #unnamed(node: unknown, depth: number): { readonly value: unknown; readonly height: number } {
    if (isMap(node)) return this.#map(node, depth + 1);
    if (isSeq(node)) return this.#seq(node, depth + 1);
    const value = isScalar(node) ? node.value : null;
    if (this.isNew && isScalar(node) && losesDigits(node))
      throw new YamlError(offsetOf(node), "a whole number beyond 2^53 would lose digits: put it in quotes, as a text");
    this.#take(typeof value === "string" ? value.length : 1, node);
    return { value, height: 0 };
  }

  #alias(name: string, offset: number, depth: number): Anchored {
    if (++this.#aliases > this.#limits.maxAliases) throw new YamlLimitError(offset, "maxAliases", this.#limits);
    const anchored = this.#anchors.get(name);
    if (anchored === undefined) throw new YamlError(offset, "an alias names no anchor that comes before it");
    if (anchored === null) throw new YamlError(offset, "an alias names what it is part of");
    this.#refuseDeep(depth + anchored.height, offset);
    this.#take(anchored.sizeBytes, { range: [offset] });
    return anchored;
  }

  #seq(seq: YAMLSeq, depth: number): { readonly value: unknown[]; readonly height: number } {
    this.#refuseDeep(depth, offsetOf(seq));
    this.#take(COLLECTION_BYTES, seq);
    let height = 0;
    const value = seq.items.map((item) => {
      const made = isPair(item) ? this.#pairs([item], depth + 1) : this.of(item, depth);
      height = Math.max(height, made.height);
      return made.value;
    });
    return { value, height: height + 1 };
  }

  #map(map: YAMLMap, depth: number): { readonly value: object; readonly height: number } {
    this.#refuseDeep(depth, offsetOf(map));
    this.#take(COLLECTION_BYTES, map);
    return this.#pairs(map.items, depth);
  }

  #pairs(pairs: readonly Pair[], depth: number): { readonly value: object; readonly height: number } {
    const values = new Map<string, unknown>();
    const keys = new Set<unknown>();
    let height = 0;
    for (const { key, value } of pairs) {
      if (isScalar(key) && typeof key.value === "symbol") {
        height = Math.max(height, this.#merge(value, values, offsetOf(key), depth));
        continue;
      }
      if (isScalar(key)) {
        if (keys.has(key.value)) throw new YamlError(offsetOf(key), "the keys of a mapping must be unique");
        keys.add(key.value);
      }
      const name = this.of(key, depth);
      const made = this.of(value, depth);
      values.set(this.#keyOf(name.value, key), made.value);
      height = Math.max(height, name.height, made.height);
    }
    // Not by assignment: one of the keys may be `__proto__`.
    return { value: Object.fromEntries(values), height: height + 1 };
  }

  #keyOf(value: unknown, node: unknown): string {
    const key = textOf(value);
    this.#take(KEY_BYTES - VALUE_BYTES, node);
    if (this.#keys.add(key).size > this.#limits.maxKeys)
      throw new YamlLimitError(offsetOf(node), "maxKeys", this.#limits);
    return key;
  }

  /** What is there already stays. Returns the height of what came. */
  #merge(node: unknown, into: Map<string, unknown>, offset: number, depth: number): number {
    if (++this.#mergeKeys > this.#limits.maxMergeKeys) throw new YamlLimitError(offset, "maxMergeKeys", this.#limits);
    const { value, height } = this.of(node, depth);
    for (const source of Array.isArray(value) ? value : [value]) {
      if (typeof source !== "object" || source === null || Array.isArray(source)) {
        throw new YamlError(offset, "a merge key needs a mapping, or a list of mappings");
      }
      for (const [name, inner] of Object.entries(source)) if (!into.has(name)) into.set(name, inner);
    }
    return height;
  }

  #refuseDeep(depth: number, offset: number): void {
    if (depth > this.#limits.maxDepth) throw new YamlLimitError(offset, "maxDepth", this.#limits);
  }

  #take(sizeBytes: number, node: unknown): void {
    this.#sizeBytes += sizeBytes + VALUE_BYTES;
    if (this.#sizeBytes > this.#limits.maxExpandedBytes) {
      throw new YamlLimitError(offsetOf(node), "maxExpandedBytes", this.#limits);
    }
  }
}

function losesDigits({ value, source }: Scalar): boolean {
  return Number.isInteger(value) && !Number.isSafeInteger(value) && WHOLE_NUMBER.test(source ?? "");
}

/** Not 1e300, which nobody means to the last digit. */
const WHOLE_NUMBER = /^[-+]?(?:0[xX][0-9a-fA-F_]+|0[ob][0-7_]+|[0-9][0-9_:]*)$/;

/** As YAML libraries make names of keys that are no texts. */
function textOf(key: unknown): string {
  if (key === null) return "";
  return typeof key === "object" ? JSON.stringify(key) : String(key);
}

function offsetOf(node: unknown): number {
  return (node as { readonly range?: readonly number[] | null } | null)?.range?.[0] ?? 0;
}

import type { Random } from "../random.js";

/** Values that often cause faults, and functions that damage valid values. */

const EDGE_NUMBERS = [
  0,
  -0,
  1,
  -1,
  2,
  7,
  127,
  128,
  255,
  256,
  32_767,
  65_535,
  65_536,
  2 ** 31 - 1,
  2 ** 31,
  -(2 ** 31),
  2 ** 32 - 1,
  2 ** 32,
  2 ** 53 - 1,
  2 ** 53,
  -(2 ** 53),
  2 ** 63,
  -(2 ** 63),
  2 ** 64,
  1e308,
  5e-324,
  0.1,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
];

const TEXTS = [
  "",
  " ",
  "\0",
  "a\0b",
  "\r\n",
  "..",
  "../../etc/passwd",
  "/",
  "//",
  "*",
  ">",
  "a.b",
  "$(id)",
  "`id`",
  "%s%n",
  "%00",
  "__proto__",
  "constructor",
  "toString",
  "hasOwnProperty",
  "prototype",
  "null",
  "true",
  "-1",
  "1e999",
  "\u2028",
  "\ud800",
  "\udfff\ud800",
  "\u202e",
  "e\u0301",
  "\u{1f4be}",
  "\ufeff",
  "{{{",
  "[[[",
  "'\"",
  "\\",
  "<a>",
  "&amp;",
  "spiffe://diskmesh/director",
  "0x10",
  "host-2 ",
  " host-2",
  "HOST-2",
] as const;

const LONG = [64, 255, 256, 1_024, 4_096, 65_536] as const;

export function strangeNumber(random: Random): number {
  if (random.chance(0.5)) return random.pick(EDGE_NUMBERS);
  return Math.floor((random.next() - 0.5) * 2 ** random.below(66));
}

export function strangeText(random: Random): string {
  if (random.chance(0.6)) return random.pick(TEXTS);
  if (random.chance(0.15)) return random.pick(["a", "\u00e9", "/", "[", ".", "\n"]).repeat(random.pick(LONG));
  return randomBytes(random, random.below(24)).toString(random.chance(0.5) ? "latin1" : "base64url");
}

export function randomBytes(random: Random, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length);
  for (let index = 0; index < length; index++) bytes[index] = random.below(256);
  return bytes;
}

/** Returns any JSON value, occasionally one with depth `deepest`. */
export function strangeJson(random: Random, depth = 3, deepest = 5_000): unknown {
  if (random.chance(0.03)) return deep(random, random.pick([10, 100, deepest]));
  const kind = random.below(depth > 0 ? 8 : 6);
  if (kind < 2) return strangeText(random);
  if (kind === 2) return strangeNumber(random);
  if (kind === 3) return random.chance(0.5);
  if (kind < 6) return null;
  const items = Array.from({ length: random.below(4) }, () => strangeJson(random, depth - 1, deepest));
  return kind === 6 ? items : Object.fromEntries(items.map((item) => [strangeText(random), item]));
}

function deep(random: Random, depth: number): unknown {
  const asList = random.chance(0.5);
  let value: unknown = null;
  for (let level = 0; level < depth; level++) value = asList ? [value] : { a: value };
  return value;
}

/** Returns the value with one change: another value, an added or missing key, or a longer list. */
export function spoilJson(random: Random, value: unknown): unknown {
  if (random.chance(0.2) || typeof value !== "object" || value === null) return strangeJson(random);
  if (Array.isArray(value)) {
    const copy: unknown[] = [...value];
    const at = random.below(copy.length + 1);
    const how = random.next();
    if (at === copy.length || how < 0.2) copy.splice(at, 0, strangeJson(random));
    else if (how < 0.35) copy.splice(at, 1);
    else if (how < 0.4) return copy.flatMap((item) => Array.from({ length: 50 }, () => item));
    else copy[at] = spoilJson(random, copy[at]);
    return copy;
  }
  const copy: Record<string, unknown> = { ...value };
  const keys = Object.keys(copy);
  if (keys.length === 0 || random.chance(0.15)) return { ...copy, [strangeText(random)]: strangeJson(random) };
  const key = random.pick(keys);
  if (random.chance(0.15)) delete copy[key];
  else copy[key] = spoilJson(random, copy[key]);
  return copy;
}

/** Encodes a value as JSON text, which may be invalid. Numbers that JSON lacks are written nevertheless. */
export function jsonText(random: Random, value: unknown): Buffer {
  const text = Buffer.from(write(value));
  return random.chance(0.3) ? spoilBytes(random, text) : text;
}

function write(value: unknown): string {
  // Encodes the value without JSON.stringify, which is recursive and turns non-finite numbers into null.
  const done: string[] = [];
  const left: unknown[] = [value];
  while (left.length > 0) {
    const one = left.pop();
    if (one instanceof Verbatim) done.push(one.text);
    else if (Array.isArray(one)) {
      left.push(new Verbatim("]"));
      for (let index = one.length - 1; index >= 0; index--) left.push(one[index], new Verbatim(index === 0 ? "" : ","));
      left.push(new Verbatim("["));
    } else if (typeof one === "object" && one !== null) {
      const entries = Object.entries(one).reverse();
      left.push(new Verbatim("}"));
      for (const [index, [key, item]] of entries.entries())
        left.push(item, new Verbatim(`${index === entries.length - 1 ? "" : ","}${JSON.stringify(key)}:`));
      left.push(new Verbatim("{"));
    } else if (typeof one === "number") done.push(String(one));
    else done.push(JSON.stringify(one ?? null));
  }
  return done.join("");
}

class Verbatim {
  constructor(readonly text: string) {}
}

/** Returns the bytes with one to four changes. */
export function spoilBytes(random: Random, bytes: Buffer): Buffer {
  let spoiled = Buffer.from(bytes);
  for (let change = random.below(4); change >= 0; change--) spoiled = spoilOnce(random, spoiled);
  return spoiled;
}

function spoilOnce(random: Random, bytes: Buffer): Buffer<ArrayBuffer> {
  const at = random.below(bytes.length + 1);
  const some = random.below(Math.min(64, bytes.length + 1));
  const copy = Buffer.from(bytes);
  switch (random.below(8)) {
    case 0:
      if (at < copy.length) copy[at] = (copy[at] as number) ^ (1 << random.below(8));
      return copy;
    case 1:
      if (at < copy.length) copy[at] = random.pick([0, 1, 0x7f, 0x80, 0xff, random.below(256)]);
      return copy;
    case 2:
      return Buffer.concat([bytes.subarray(0, at), randomBytes(random, some), bytes.subarray(at)]);
    case 3:
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(Math.min(bytes.length, at + some))]);
    case 4:
      return Buffer.from(bytes.subarray(0, at));
    case 5: {
      const piece = bytes.subarray(at, at + some);
      const times = random.pick([1, 2, 10, 200]);
      return Buffer.concat([bytes.subarray(0, at), ...Array.from({ length: times }, () => piece), bytes.subarray(at)]);
    }
    case 6: {
      const width = random.pick([2, 4, 6]);
      if (at + width > copy.length) return copy;
      const value = random.pick([0, 1, 2 ** (8 * width) - 1, 2 ** (8 * width - 1), random.below(2 ** 16)]);
      if (random.chance(0.5)) copy.writeUIntBE(value, at, width);
      else copy.writeUIntLE(value, at, width);
      return copy;
    }
    default: {
      const text = Buffer.from(strangeText(random));
      return Buffer.concat([bytes.subarray(0, at), text, bytes.subarray(Math.min(bytes.length, at + text.length))]);
    }
  }
}

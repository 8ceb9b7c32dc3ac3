import { InvalidArgumentError } from "./errors.js";

export type JsonObject = Readonly<Record<string, unknown>>;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Maximum nesting of lists and objects in JSON that services exchange. A protobuf decoder stops at 100 nested messages,
 * and each object of a google.protobuf.Struct takes three, so 32 levels fit.
 */
export const MAX_JSON_DEPTH = 32;

/** Maximum nesting of a text that contains such JSON, e.g. the arguments of a request. */
export const MAX_ENVELOPE_DEPTH = MAX_JSON_DEPTH + 8;

/**
 * Parses external JSON. `what` names it in errors, e.g. "the reply"; errors never quote it, because it may contain
 * secrets. The depth limit makes recursion over the value safe.
 */
export function parseJson(what: string, text: string, maxDepth = MAX_ENVELOPE_DEPTH): unknown {
  if (jsonDepthOf(text) > maxDepth) throw new InvalidArgumentError(`${what} is nested more than ${maxDepth} deep`);
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidArgumentError(`${what} of ${text.length} characters is not JSON`);
  }
}

/**
 * Returns the first part of a value that JSON would drop or change, with its path: a Map, a typed array, a generator,
 * NaN, an integer of 2^53 or more, a text with half of a surrogate pair, which UTF-8 lacks. Also returns a property
 * `__proto__`, which decoders of protobuf drop. Returns undefined when JSON keeps the value unchanged. Properties that
 * are undefined are ignored; an object with `toJSON` is checked by the result of `toJSON`.
 */
export function problemAsJson(value: unknown, path = "", depth = 0): string | undefined {
  const at = path === "" ? "it" : path.slice(0, MAX_PATH_LENGTH);
  if (value === null || typeof value === "boolean") return undefined;
  if (typeof value === "string") return LONE_SURROGATE.test(value) ? `${at} ${HALF_A_CHARACTER}` : undefined;
  if (typeof value === "number") return problemOfNumber(value, at);
  if (typeof value !== "object") return `${at} is of type ${typeof value}, which JSON does not have`;
  if (depth > MAX_JSON_DEPTH) return `${at} is nested more than ${MAX_JSON_DEPTH} deep`;
  if ("toJSON" in value && typeof value.toJSON === "function" && !ArrayBuffer.isView(value))
    return problemAsJson(value.toJSON(), path, depth + 1);
  const kind = Object.prototype.toString.call(value).slice("[object ".length, -1);
  if (kind !== "Array" && kind !== "Object") return `${at} is of type ${kind}: give lists and plain objects`;
  for (const [name, inner] of Object.entries(value)) {
    if (inner === undefined && kind === "Object") continue;
    if (name === "__proto__") return `${at} has a property __proto__, which not every decoder keeps`;
    if (LONE_SURROGATE.test(name)) return `a property of ${path === "" ? "it" : at} ${HALF_A_CHARACTER}`;
    const problem = problemAsJson(inner, path === "" ? name : `${path}.${name}`, depth + 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const MAX_PATH_LENGTH = 200;
const LONE_SURROGATE = /\p{Surrogate}/u;
const HALF_A_CHARACTER = "contains a surrogate without its pair, which UTF-8 does not have";

function problemOfNumber(value: number, at: string): string | undefined {
  if (!Number.isFinite(value)) return `${at} is ${value}, which JSON does not have`;
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return undefined;
  return `${at} is an integer of 2^53 or more, which may have lost digits: give it as a text`;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN = new Set([0x5b, 0x7b]);
const CLOSE = new Set([0x5d, 0x7d]);

/** Returns the nesting depth of JSON text; an arbitrary number for any other text. */
export function jsonDepthOf(text: string): number {
  let depth = 0;
  let deepest = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) quoted = !quoted;
    else if (quoted) at += code === BACKSLASH ? 1 : 0;
    else if (OPEN.has(code)) deepest = Math.max(deepest, ++depth);
    else if (CLOSE.has(code)) depth--;
  }
  return deepest;
}

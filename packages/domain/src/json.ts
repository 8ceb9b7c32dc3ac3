import { InvalidArgumentError } from "./errors.js";

export type JsonObject = Readonly<Record<string, unknown>>;

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Lists and objects inside each other, of JSON that services pass on to each other. A decoder of protobuf gives up at
 * 100 messages inside each other, and each object of a google.protobuf.Struct is three.
 */
export const MAX_JSON_DEPTH = 32;

/** Of what holds such JSON: the arguments of a request, say. */
export const MAX_ENVELOPE_DEPTH = MAX_JSON_DEPTH + 8;

/**
 * Parses JSON from outside. `what` names it in errors, e.g. "the reply"; they quote nothing of it, which may hold
 * secrets. Whoever walks over the value may call itself for each level.
 */
export function parseJson(what: string, text: string, maxDepth = MAX_ENVELOPE_DEPTH): unknown {
  if (jsonDepthOf(text) > maxDepth) throw new InvalidArgumentError(`${what} is nested more than ${maxDepth} deep`);
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidArgumentError(`${what} of ${text.length} characters is not JSON`);
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN = new Set([0x5b, 0x7b]);
const CLOSE = new Set([0x5d, 0x7d]);

/** Of what is JSON; of anything else it is some number. */
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

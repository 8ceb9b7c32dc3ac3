import { createHash } from "node:crypto";

const SEAL = /^\{"sha256":"([0-9a-f]{64})",/;

/** Returns a JSON object's text with a checksum of the text as its first member. */
export function seal(text: string): string {
  return `{"sha256":"${checksum(text)}",${text.slice(1)}`;
}

/**
 * Returns the text that was sealed. A text without a checksum is returned unchanged, because caches of the first format
 * had none. Throws an Error when the checksum does not match.
 */
export function unseal(text: string): { readonly text: string; readonly sealed: boolean } {
  const [found, expected] = SEAL.exec(text) ?? [];
  if (found === undefined) return { text, sealed: false };
  const inside = `{${text.slice(found.length)}`;
  if (checksum(inside) !== expected) throw new Error("the checksum does not match the contents");
  return { text: inside, sealed: true };
}

const checksum = (text: string): string => createHash("sha256").update(text).digest("hex");

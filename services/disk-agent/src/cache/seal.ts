import { createHash } from "node:crypto";

const SEAL = /^\{"sha256":"([0-9a-f]{64})",/;

/** Returns a JSON object's text with a checksum of the text as its first member. */
export function seal(text: string): string {
  return `{"sha256":"${checksum(text)}",${text.slice(1)}`;
}

/** Returns the text that was sealed. Throws an Error when the text has no checksum, or does not match it. */
export function unseal(text: string): string {
  const [found, expected] = SEAL.exec(text) ?? [];
  if (found === undefined) throw new Error("the text has no checksum");
  const inside = `{${text.slice(found.length)}`;
  if (checksum(inside) !== expected) throw new Error("the checksum does not match the contents");
  return inside;
}

const checksum = (text: string): string => createHash("sha256").update(text).digest("hex");

import { createHmac, timingSafeEqual } from "node:crypto";
import { isJsonObject, type JsonObject, PermissionDeniedError } from "@diskmesh/domain";
import type { Target } from "./wanted-call.js";

/** A GET of a method that an address permits to whoever has it. */
export interface MethodLink {
  readonly target: Target;
  /** `driver.method`. */
  readonly method: string;
  readonly args: JsonObject;
  readonly endsAtMs: number;
  /** User who made the address. */
  readonly madeBy: string;
}

/** Bounds the address: servers and clients of a boot accept lines of several KiB. */
export const MAX_LINK_LENGTH = 4_096;

/** Returns the signed text of a link, which has letters that need no escape in an address. */
export function signedLink(link: MethodLink, key: string): string {
  const content = Buffer.from(JSON.stringify(link)).toString("base64url");
  return `${content}.${signatureOf(content, key)}`;
}

/** Returns the link of a signed text. Throws PermissionDeniedError for another signature, and after the link's end. */
export function readLink(text: string, key: string | undefined, nowMs: number): MethodLink {
  const [content = "", signature = ""] = text.slice(0, MAX_LINK_LENGTH).split(".");
  if (key === undefined || !isEqual(signature, signatureOf(content, key)))
    throw new PermissionDeniedError("this address is not signed by this director: ask for another one");
  const link: unknown = JSON.parse(Buffer.from(content, "base64url").toString());
  if (!isJsonObject(link)) throw new TypeError("a signed link is no object");
  const { endsAtMs } = link as unknown as MethodLink;
  if (!(endsAtMs > nowMs)) {
    const ended = new Date(endsAtMs).toISOString();
    throw new PermissionDeniedError(`this address was good until ${ended}: ask for another one`);
  }
  return link as unknown as MethodLink;
}

function signatureOf(content: string, key: string): string {
  return createHmac("sha256", Buffer.from(key, "base64url")).update(`vendor method ${content}`).digest("base64url");
}

function isEqual(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}

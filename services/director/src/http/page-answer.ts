import { visibleInJson } from "@diskmesh/domain";
import type { Answer } from "./answer.js";

/** Restricts the page to resources of this director and forbids framing by other sites. */
export const PAGE_HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "x-frame-options": "DENY",
};
export const DATA_HEADERS = { ...PAGE_HEADERS, "cache-control": "no-store" };
export const JSON_HEADERS = { ...DATA_HEADERS, "content-type": "application/json" };

export function data(value: unknown): Answer {
  return { status: 200, headers: JSON_HEADERS, body: visibleInJson(JSON.stringify(value)) };
}

import { createHmac, randomBytes } from "node:crypto";
import { REDACTED } from "@diskmesh/domain";
import { stringify } from "yaml";
import { readYaml, storedLimits, withoutAnchors } from "./document.js";

// Random per process, so that a mark reveals nothing about the secret.
const KEY = randomBytes(32);
/** Keys of cpi-configs and manifests that may contain secrets. */
const SECRET_KEYS = ["properties", "env"];
const MARK = /<redacted [0-9a-f]{64}>/g;

/**
 * Returns a config as normalized lines, which are equal for equivalent configs. With `redact`, the values that only
 * CPIs or VMs may see are replaced by marks that differ when the secrets differ.
 */
export function comparableLines(content: string, { redact }: { readonly redact: boolean }): string[] {
  const value = readYaml(content, storedLimits("config"));
  // An anchor's secrets stand below another key than `properties`. Its uses, which are resolved, show its changes.
  const shown = redact ? redactProperties(withoutAnchors(value)) : value;
  const text = stringify(shown, { lineWidth: 0, aliasDuplicateObjects: false });
  return text.trimEnd().split("\n");
}

/** Returns the line with its marks replaced for display. */
export function withoutMarks(line: string): string {
  return line.replace(MARK, REDACTED);
}

function redactProperties(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(redactProperties);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      SECRET_KEYS.includes(name) ? redactValues(inner) : redactProperties(inner),
    ]),
  );
}

function redactValues(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(redactValues);
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, redactValues(inner)]));
  }
  return `<redacted ${createHmac("sha256", KEY).update(JSON.stringify(value)).digest("hex")}>`;
}

import { InvalidArgumentError } from "./errors.js";
import { quoted } from "./identifiers.js";

/** Longest path of a device file, in characters. */
export const MAX_PATH_LENGTH = 4_096;

// Nearly all texts match, and this test is much cheaper than one for Unicode classes.
const PRINTABLE_ASCII = /^[ -~]*$/;

/**
 * Parses the path of a device file. Registries refuse any other path, so agents check their config and discovered files
 * by this rule. Throws InvalidArgumentError.
 */
export function parseDevicePath(path: string, field = "path"): string {
  const problem = pathProblem(path, field);
  if (problem !== undefined) throw new InvalidArgumentError(problem, { about: { field } });
  return path;
}

function pathProblem(path: string, field: string): string | undefined {
  if (path === "") return `${field} is empty: give one`;
  if (path.length > MAX_PATH_LENGTH) return `${field} ${quoted(path)} is longer than ${MAX_PATH_LENGTH} characters`;
  if (hasControlCharacter(path)) return `${field} ${quoted(path)} holds a control character: rename the file`;
  return undefined;
}

/** Returns whether a text contains a control character, or half of a surrogate pair. */
export function hasControlCharacter(text: string): boolean {
  return !PRINTABLE_ASCII.test(text) && /[\p{Cc}\p{Surrogate}]/u.test(text);
}

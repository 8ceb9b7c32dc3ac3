import { resolve } from "node:path";
import { InvalidArgumentError, messageOf, quoted } from "@diskmesh/domain";
import fastGlob from "fast-glob";
import micromatch from "micromatch";

/** Maximum matches of a glob. No host has so many drives, so more matches mean a mistake in the config. */
const MAX_MATCHES = 10_000;
/** Maximum combinations of the alternatives in `{...}`; each is expanded separately. */
const MAX_PATTERNS = 1_000;

/**
 * Checks a glob of the config: an absolute path in which `*` and `?` match within a name, `[...]` matches one of its
 * characters, and `{sda,sdb}` and `{1..4}` expand to each of their parts. Any other character matches itself, including
 * the backslash.
 */
export function parseGlob(glob: string): string {
  if (!/^\/[^\p{Cc}]{1,4095}$/u.test(glob))
    throw new InvalidArgumentError(`${quoted(glob)} must be an absolute path of at most 4096 characters`);
  if (maxPatterns(glob) > MAX_PATTERNS)
    throw new InvalidArgumentError(`${quoted(glob)} stands for more than ${MAX_PATTERNS} patterns: use * or two rules`);
  try {
    // `expand` throws for an invalid pattern, which would otherwise match nothing.
    for (const pattern of micromatch.braces(literal(glob), { expand: true, keepEscaping: true }))
      micromatch.makeRe(pattern, { debug: true, posix: true, noext: true });
  } catch (error) {
    const why = messageOf(error).replace(/^Invalid regular expression: .*: /s, "");
    throw new InvalidArgumentError(`${quoted(glob)} is not a valid glob: ${why}`, { cause: error });
  }
  return glob;
}

/**
 * Returns the matching paths of any file type, sorted. A name that begins with a dot matches only a part of the glob
 * that begins with a dot.
 */
export async function expandGlob(glob: string): Promise<string[]> {
  const found = await fastGlob(literal(resolve(glob)), {
    cwd: "/",
    // Limits the library to one folder at a time, so that a hung file system blocks one thread only.
    concurrency: 1,
    // Includes device nodes, which the library does not count as files.
    onlyFiles: false,
    extglob: false,
    globstar: false,
    // A missing or unreadable folder matches nothing; it must not stop the search elsewhere.
    suppressErrors: true,
  });
  return found.sort().slice(0, MAX_MATCHES);
}

/** Escapes backslashes, parentheses and bars, which have a meaning for the library only. */
function literal(glob: string): string {
  return glob.replaceAll("\\", "[\\\\]").replace(/[()|]/g, "\\$&");
}

/** Returns an upper bound of the number of patterns that a glob's braces expand to, without expanding them. */
function maxPatterns(glob: string): number {
  const groups = Math.max(1, glob.split("{").length - 1);
  let choices = glob.split(",").length - 1;
  for (const [, from = "", to = ""] of glob.matchAll(/(-?[^{},.]+)\.\.(-?[^{},.]+)/gu))
    choices += Math.abs(ordinal(to) - ordinal(from));
  return (choices / groups + 1) ** groups;
}

function ordinal(text: string): number {
  return /^-?\d+$/.test(text) ? Number(text) : (text.codePointAt(0) ?? 0);
}

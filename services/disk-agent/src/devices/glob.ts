import { resolve } from "node:path";
import { InvalidArgumentError, messageOf, quoted } from "@diskmesh/domain";
import fastGlob from "fast-glob";
import micromatch from "micromatch";

/** More than any host has drives: a glob that matches more is a mistake. */
const MAX_MATCHES = 10_000;
/** What the alternatives in `{...}` may stand for together: each is looked up by itself. */
const MAX_PATTERNS = 1_000;

/**
 * Checks a glob of the config: an absolute path in which `*` and `?` match within a name, `[...]` one of its characters,
 * and `{sda,sdb}` and `{1..4}` stand for each of their parts. All else means itself, the backslash too.
 */
export function parseGlob(glob: string): string {
  if (!/^\/[^\p{Cc}]{1,4095}$/u.test(glob))
    throw new InvalidArgumentError(`${quoted(glob)} must be an absolute path of at most 4096 characters`);
  if (maxPatterns(glob) > MAX_PATTERNS)
    throw new InvalidArgumentError(`${quoted(glob)} stands for more than ${MAX_PATTERNS} patterns: use * or two rules`);
  try {
    // Without `debug` a pattern that is wrong is one that nothing matches.
    for (const pattern of micromatch.braces(literal(glob), { expand: true, keepEscaping: true }))
      micromatch.makeRe(pattern, { debug: true, posix: true, noext: true });
  } catch (error) {
    const why = messageOf(error).replace(/^Invalid regular expression: .*: /s, "");
    throw new InvalidArgumentError(`${quoted(glob)} is no glob: ${why}`, { cause: error });
  }
  return glob;
}

/** What exists and matches, of whatever type, in order. A name that begins with a dot matches only a part that does. */
export async function expandGlob(glob: string): Promise<string[]> {
  const found = await fastGlob(literal(resolve(glob)), {
    cwd: "/",
    // A file system that hangs holds up one thread of the process, not all.
    concurrency: 1,
    // Device nodes are no files.
    onlyFiles: false,
    extglob: false,
    globstar: false,
    // A folder that is missing or closed to us holds nothing that matches, and hides nothing that others hold.
    suppressErrors: true,
  });
  return found.sort().slice(0, MAX_MATCHES);
}

/** The library would take backslashes, parentheses and bars for more than themselves. */
function literal(glob: string): string {
  return glob.replaceAll("\\", "[\\\\]").replace(/[()|]/g, "\\$&");
}

/** At least as many patterns as the braces of a glob stand for, however they are nested, without making one of them. */
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

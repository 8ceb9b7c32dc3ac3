import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "./run.mjs";
import { sourceFiles } from "./source-files.mjs";

// Minimum length of a copy in lines, without comments, blank lines and imports. Shorter copies are mostly brackets and
// data.
const MIN_LINES = 8;
const MIN_TOKENS = 40;
/** Patterns of the first and last lines of skipped parts: comments, imports and re-exports. */
const SKIPPED = [
  [/^\/\*/, /\*\/$/],
  [/^(?:import\b(?!\()|export (?:type )?[{*])/, /;$/],
];

/**
 * Throws a Failure when the same lines of code occur in two places, tests included. Biome formats all files, so copies
 * are equal line by line. A table of cases counts only when the same cases occur twice.
 */
export function checkCopies(root) {
  const seen = new Map();
  const copies = sourceFiles(root).flatMap((file) =>
    copiesIn(file, codeLines(readFileSync(join(root, file), "utf8")), seen),
  );
  if (copies.length > 0)
    throw new Failure(
      `${copies.map(({ here, there }) => `${placeOf(here)} is a copy of ${placeOf(there)}`).join("\n")}
make one shared piece of what stands in both places`,
    );
}

/** Returns the lines to compare, with their numbers. */
function codeLines(text) {
  const lines = [];
  let end;
  for (const [index, raw] of text.split("\n").entries()) {
    const line = raw.trim();
    end ??= SKIPPED.find(([start]) => start.test(line))?.[1];
    if (end === undefined && line !== "" && !line.startsWith("//"))
      lines.push({ number: index + 1, text: line, tokens: line.match(/\w+|[^\s\w]/g).length });
    if (end?.test(line)) end = undefined;
  }
  return lines;
}

/** Returns copies of lines in `seen`, and adds the file's other lines to `seen`. */
function copiesIn(file, lines, seen) {
  const copies = [];
  for (let first = 0; first + MIN_LINES <= lines.length; first++) {
    const here = { file, lines, first, last: first + MIN_LINES - 1 };
    const text = linesOf(here)
      .map((line) => line.text)
      .join("\n");
    const there = seen.get(text);
    if (there === undefined) seen.set(text, here);
    // A block of equal lines must not count as a copy of itself, shifted by one line.
    else if (there.file !== file || there.last < first) grow(copies, here, there);
  }
  return copies.filter(({ here }) => linesOf(here).reduce((sum, { tokens }) => sum + tokens, 0) >= MIN_TOKENS);
}

/** Adds a copy, or extends the last copy by one line. */
function grow(copies, here, there) {
  const before = copies.at(-1);
  const goesOn =
    before?.here.last === here.last - 1 && before.there.file === there.file && before.there.last === there.last - 1;
  if (goesOn) [before.here.last, before.there.last] = [here.last, there.last];
  else copies.push({ here: { ...here }, there: { ...there } });
}

function linesOf({ lines, first, last }) {
  return lines.slice(first, last + 1);
}

function placeOf({ file, lines, first, last }) {
  return `${file}:${lines[first].number}-${lines[last].number}`;
}

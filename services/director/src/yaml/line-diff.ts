import { diffArrays } from "diff";

export type LineChange = "none" | "added" | "removed";

export interface ChangedLine {
  readonly text: string;
  readonly change: LineChange;
}

/** Maximum changes searched for in long texts, which bounds the search to 0.5 s. */
const MAX_CHANGES = 4_000;
const MAX_CELLS_OF_SHORT_TEXTS = 4_000_000;

/**
 * Returns the lines of both texts in order with a minimal diff, or with the whole middle replaced when the diff is too
 * large.
 */
export function diffLines(from: readonly string[], to: readonly string[]): ChangedLine[] {
  let start = 0;
  while (start < from.length && start < to.length && from[start] === to[start]) start++;
  let end = 0;
  while (end < from.length - start && end < to.length - start && from.at(-1 - end) === to.at(-1 - end)) end++;
  return [
    ...changed(from.slice(0, start), "none"),
    ...diffMiddle(from.slice(start, from.length - end), to.slice(start, to.length - end)),
    ...changed(from.slice(from.length - end), "none"),
  ];
}

function diffMiddle(from: string[], to: string[]): ChangedLine[] {
  const isShort = from.length * to.length <= MAX_CELLS_OF_SHORT_TEXTS;
  const parts = diffArrays(from, to, { maxEditLength: isShort ? Number.POSITIVE_INFINITY : MAX_CHANGES });
  if (parts === undefined) return [...changed(from, "removed"), ...changed(to, "added")];
  return parts.flatMap(({ value, added, removed }) => changed(value, added ? "added" : removed ? "removed" : "none"));
}

const changed = (lines: readonly string[], change: LineChange): ChangedLine[] =>
  lines.map((text) => ({ text, change }));

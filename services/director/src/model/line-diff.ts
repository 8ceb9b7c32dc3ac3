export type LineChange = "none" | "added" | "removed";

export interface ChangedLine {
  readonly text: string;
  readonly change: LineChange;
}

/** Beyond it the changed middle of two texts is shown as replaced as a whole, which takes no time to find out. */
const MAX_CELLS = 4_000_000;

/** The lines of both texts in order, with the fewest changes between them. */
export function diffLines(from: readonly string[], to: readonly string[]): ChangedLine[] {
  let start = 0;
  while (start < from.length && start < to.length && from[start] === to[start]) start++;
  let end = 0;
  while (end < from.length - start && end < to.length - start && from.at(-1 - end) === to.at(-1 - end)) end++;
  return [
    ...from.slice(0, start).map(unchanged),
    ...diffMiddle(from.slice(start, from.length - end), to.slice(start, to.length - end)),
    ...from.slice(from.length - end).map(unchanged),
  ];
}

function diffMiddle(from: readonly string[], to: readonly string[]): ChangedLine[] {
  if (from.length * to.length > MAX_CELLS) return [...from.map(removed), ...to.map(added)];
  const common = commonLengths(from, to);
  const width = to.length + 1;
  const lines: ChangedLine[] = [];
  let a = 0;
  let b = 0;
  while (a < from.length && b < to.length) {
    if (from[a] === to[b]) {
      lines.push(unchanged(from[a] as string));
      a++;
      b++;
    } else if ((common[(a + 1) * width + b] as number) >= (common[a * width + b + 1] as number)) {
      lines.push(removed(from[a++] as string));
    } else {
      lines.push(added(to[b++] as string));
    }
  }
  return [...lines, ...from.slice(a).map(removed), ...to.slice(b).map(added)];
}

/** At a * width + b: how many lines the texts from line a and from line b on have in common, at most. */
function commonLengths(from: readonly string[], to: readonly string[]): Uint32Array {
  const width = to.length + 1;
  const lengths = new Uint32Array((from.length + 1) * width);
  for (let a = from.length - 1; a >= 0; a--) {
    for (let b = to.length - 1; b >= 0; b--) {
      lengths[a * width + b] =
        from[a] === to[b]
          ? (lengths[(a + 1) * width + b + 1] as number) + 1
          : Math.max(lengths[(a + 1) * width + b] as number, lengths[a * width + b + 1] as number);
    }
  }
  return lengths;
}

const unchanged = (text: string): ChangedLine => ({ text, change: "none" });
const added = (text: string): ChangedLine => ({ text, change: "added" });
const removed = (text: string): ChangedLine => ({ text, change: "removed" });

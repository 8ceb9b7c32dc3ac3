/** Returns the name that the user most likely meant: one with a typing error or with its words in another order. */
export function nearestOf(name: string, names: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestScore = 0;
  for (const candidate of names) {
    const score = likeness(name, candidate);
    if (score > bestScore) [best, bestScore] = [candidate, score];
  }
  return best;
}

const MAX_LISTED = 5;

/**
 * Returns the end of a message about an unknown name: the names that there are, or, of many, the one that the user most
 * likely meant.
 */
export function otherNames(name: string, names: readonly string[]): string {
  if (names.length === 0) return "there is none";
  if (names.length <= MAX_LISTED) return `there ${names.length === 1 ? "is" : "are"} ${names.join(", ")}`;
  const nearest = nearestOf(name, names);
  return nearest === undefined ? `there are ${names.length} others` : `did you mean ${nearest}?`;
}

/** Returns the similarity from 0, nothing in common, to 1, equal. */
function likeness(one: string, other: string): number {
  const [a, b] = [one.toLowerCase(), other.toLowerCase()];
  const byLetters = 1 - distance(a, b) / Math.max(a.length, b.length, 1);
  const words = new Set(wordsOf(one));
  const otherWords = new Set(wordsOf(other));
  const shared = [...words].filter((word) => otherWords.has(word)).length;
  const byWords = shared / Math.max(words.size, otherWords.size, 1);
  // More than half of the words must be common: with two words each, one common word such as "size" or "timeout" is
  // mostly chance.
  return Math.max(byLetters >= 0.7 ? byLetters : 0, byWords > 0.5 ? byWords : 0);
}

const wordsOf = (name: string): string[] =>
  name
    .split(/(?<=[a-z0-9])(?=[A-Z])|[._[\]]+/)
    .filter((word) => word !== "")
    .map((word) => word.toLowerCase());

/** Returns the number of letters to insert, delete, change or swap with a neighbour. */
function distance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, index) => index)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    const above = rows[i - 1] as number[];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let least = Math.min((above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (above[j - 1] ?? 0) + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, (rows[i - 2]?.[j - 2] ?? 0) + 1);
      row.push(least);
    }
    rows.push(row);
  }
  return rows[a.length]?.[b.length] ?? 0;
}

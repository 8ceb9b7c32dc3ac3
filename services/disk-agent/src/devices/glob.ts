import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";

/** More than any host has drives: a pattern that matches more is a mistake. */
const MAX_MATCHES = 10_000;

/**
 * The paths that match an absolute pattern, in order: `*` and `?` match within a name, `[...]` one of its characters. A
 * name that begins with a dot matches only a pattern that does.
 */
export async function expandGlob(pattern: string): Promise<string[]> {
  let folders = ["/"];
  const parts = pattern.split("/").filter((part) => part !== "");
  for (const [index, part] of parts.entries()) {
    const isLast = index === parts.length - 1;
    const next: string[] = [];
    for (const folder of folders) next.push(...(await matchesIn(folder, part, isLast)));
    folders = next.slice(0, MAX_MATCHES);
  }
  return folders.sort();
}

async function matchesIn(folder: string, part: string, isLast: boolean): Promise<string[]> {
  if (!/[*?[]/.test(part)) {
    const path = join(folder, part);
    // Folders on the way are found missing when they are read.
    if (!isLast) return [path];
    return stat(path).then(
      () => [path],
      () => [],
    );
  }
  const matcher = matcherOf(part);
  // A folder that is missing, or is none, holds nothing that matches.
  const names = await readdir(folder).catch(() => []);
  return names
    .filter((name) => matcher.test(name) && (part.startsWith(".") || !name.startsWith(".")))
    .map((name) => join(folder, name));
}

function matcherOf(part: string): RegExp {
  const source = part.replace(/\[!?[^\]]+\]|[*?]|[^*?[]+|\[/g, (piece) => {
    if (piece === "*") return ".*";
    if (piece === "?") return ".";
    if (piece.length > 2 && piece.startsWith("[") && piece.endsWith("]"))
      return `[${piece.slice(1, -1).replace(/^!/, "^").replace(/\\/g, "\\\\")}]`;
    return piece.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  });
  return new RegExp(`^${source}$`, "s");
}

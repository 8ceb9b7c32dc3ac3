import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";

/** Files and folders of the archive: path in the archive, then path in the repository. */
export const COPIES = {
  proto: "proto",
  docs: "docs",
  examples: "deploy/examples",
  "example-driver": "deploy/example-driver",
  helm: "deploy/helm",
  host: "deploy/host",
  monitoring: "deploy/monitoring",
  nats: "deploy/nats",
  nomad: "deploy/nomad",
  systemd: "deploy/systemd",
  "ARCHITECTURE.md": "ARCHITECTURE.md",
  "CHANGELOG.md": "CHANGELOG.md",
  "SECURITY.md": "SECURITY.md",
  "README.md": "deploy/release/README.md",
  LICENSE: "LICENSE",
};
/** Files of the copied folders that are useful in this repository only. */
const LEFT_OUT = /\.test\.|\/buf(?:\.gen)?\.yaml$|deliberate-breaks\.json$/;

export const isLeftOut = (file) => LEFT_OUT.test(file);

/** Matches code blocks, in which only paths of deploy/ are rewritten. */
const CODE_BLOCKS = /(^ *```.*?^ *```$)/gms;
const LINKS = /\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)/g;
const PATHS = /(?<![\w./-])deploy\/[\w/-]+(?:\.[\w/-]+)*\/?/g;

/** Rewrites the archive's pages: paths of the repository become those of the archive. */
export function rewritePages(root, folder) {
  for (const [place, page] of archivedPages(root))
    writeFileSync(join(folder, place), archivedText(root, place, page, readFileSync(join(root, page), "utf8")));
}

/**
 * Returns each page of the archive: its path there, and in the repository.
 * @public a test reads the pages' links
 */
export function archivedPages(root) {
  return Object.entries(COPIES).flatMap(([to, from]) => {
    if (!statSync(join(root, from)).isDirectory()) return from.endsWith(".md") ? [[to, from]] : [];
    const names = readdirSync(join(root, from), { recursive: true }).filter((name) => name.endsWith(".md"));
    return names.map((name) => [join(to, name), join(from, name)]);
  });
}

/**
 * Returns a page's text for the archive. A link to a file that the archive lacks becomes plain text.
 * @public a test reads the links
 */
export function archivedText(root, place, page, text) {
  const linked = (whole, label, target, anchor = "") => {
    const found = placeOf(root, normalize(join(dirname(page), target)));
    if (found === undefined) return label;
    const way = relative(dirname(place), found);
    return normalize(target) === way ? whole : `[${label}](${way}${anchor})`;
  };
  const named = (path) => placeOf(root, normalize(path)) ?? path;
  const parts = text.split(CODE_BLOCKS);
  return parts
    .map((part, index) => (index % 2 === 1 ? part : part.replace(LINKS, linked)).replace(PATHS, named))
    .join("");
}

/**
 * Returns where the archive has a file or folder of the repository; undefined when it lacks it.
 * @public a test looks linked files up
 */
export function placeOf(root, path) {
  if (isLeftOut(path) || !existsSync(join(root, path))) return undefined;
  // The archive has its own README in place of the repository's.
  if (path === "README.md") return path;
  const copy = Object.entries(COPIES).find(([, from]) => path === from || path.startsWith(`${from}/`));
  return copy && join(copy[0], relative(copy[1], path)).replace(/\/$/, "");
}

import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Returns the text of a file of `docs/`; undefined for an unknown file, and where the director was installed without its
 * documentation.
 */
export function docsText(path: string): string | undefined {
  const folder = docsFolder();
  if (folder === undefined || !/^(?:[\w-]+\/){0,3}[\w.-]+\.md$/.test(path)) return undefined;
  const file = join(folder, path);
  return existsSync(file) ? readFileSync(file, "utf8") : undefined;
}

/** Returns the folder beside the page's package: two levels above in the sources, three in a release. */
function docsFolder(): string | undefined {
  const page = dirname(fileURLToPath(import.meta.resolve("@diskmesh/page/package.json")));
  return [join(page, "../../docs"), join(page, "../../../docs")].find((each) => existsSync(join(each, "README.md")));
}

import { existsSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";

/** Address below which documentation is served, with the paths of its files. */
const ADDRESS = "/page/docs/";

/**
 * Returns a file of `docs/` as HTML: its text, with headings that links can name and with links to other files of
 * `docs/`. Returns undefined for an unknown file, and where the director was installed without its documentation.
 */
export function docsPage(path: string): string | undefined {
  const folder = docsFolder();
  if (folder === undefined || !/^(?:[\w-]+\/){0,3}[\w.-]+\.md$/.test(path)) return undefined;
  const file = join(folder, path);
  return existsSync(file) ? asHtml(path, readFileSync(file, "utf8")) : undefined;
}

/** Returns the folder beside the page's package: two levels above in the sources, three in a release. */
function docsFolder(): string | undefined {
  const page = dirname(fileURLToPath(import.meta.resolve("@diskmesh/page/package.json")));
  return [join(page, "../../docs"), join(page, "../../../docs")].find((each) => existsSync(join(each, "README.md")));
}

function asHtml(path: string, text: string): string {
  const [, title = path] = /^# (.*)$/m.exec(text) ?? [];
  const lines = escaped(text)
    .replace(/^(#+) (.*)$/gm, (line, marks: string, heading: string) => {
      return `<strong role="heading" aria-level="${marks.length}" id="${slugOf(heading)}">${line}</strong>`;
    })
    .replace(/\[([^\]\n]+)\]\(([^)\s]+)\)/g, (link, label: string, to: string) => {
      const address = addressOf(path, to);
      return address === undefined ? link : `<a href="${address}">${label}</a>`;
    });
  return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>${escaped(title)} - diskmesh</title>
    <link rel="icon" href="/page/files/icon.svg" type="image/svg+xml" />
    <link rel="stylesheet" href="/page/files/page.css" />
    <link rel="stylesheet" href="/page/files/docs.css" />
  </head>
  <body class="docs">
    <nav aria-label="Views"><a href="/page">diskmesh</a> <a href="${ADDRESS}README.md">Docs</a></nav>
    <main><pre>${lines}</pre></main>
  </body>
</html>
`;
}

/** Returns the address of a link's target; undefined for a target outside `docs/`. */
function addressOf(path: string, to: string): string | undefined {
  const [file = "", anchor] = to.split("#");
  const target = file === "" ? path : posix.join(posix.dirname(path), file);
  if (target.startsWith("..") || /^[a-z]+:/.test(to) || !/\.md$/.test(target)) return undefined;
  return `${ADDRESS}${target}${anchor === undefined ? "" : `#${anchor}`}`;
}

/** Returns a heading's name as GitHub makes it, which the links in `docs/` use. */
function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/&\w+;/g, "")
    .replace(/[^\w\- ]/g, "")
    .replace(/ /g, "-");
}

function escaped(text: string): string {
  const names: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return text.replace(/[&<>"]/g, (character) => names[character] ?? "");
}

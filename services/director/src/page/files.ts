import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** A static file for browsers. */
export interface PageFile {
  readonly type: string;
  readonly etag: string;
  readonly text: string;
}

const TYPES = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
} as const;

const PACKAGES = ["preact", "preact/hooks", "preact/jsx-runtime"];

/** Files of the chart library, by the name under which the page loads each. */
const CHART_FILES = { "uplot.js": "uplot/dist/uPlot.esm.js", "uplot.css": "uplot/dist/uPlot.min.css" };

let files: ReadonlyMap<string, PageFile> | undefined;

/** Returns the page's files by name, read on first use. Only these files are served. */
export function pageFiles(): ReadonlyMap<string, PageFile> {
  files ??= readFiles();
  return files;
}

function readFiles(): Map<string, PageFile> {
  // Resolved by the package's name, because bundling moves this code.
  const manifest = fileURLToPath(import.meta.resolve("@diskmesh/page/package.json"));
  const folder = dirname(manifest);
  const found = new Map<string, PageFile>();
  for (const part of ["public", "dist"])
    for (const name of readdirSync(join(folder, part)))
      if (/^[\w-]+\.(?:html|css|js|svg)$/.test(name)) found.set(name, pageFile(name, join(folder, part, name)));
  const { resolve } = createRequire(manifest);
  for (const name of PACKAGES) found.set(moduleName(name), pageFile(moduleName(name), resolve(name)));
  for (const [name, path] of Object.entries(CHART_FILES)) found.set(name, pageFile(name, resolve(path)));
  return found;
}

function pageFile(name: string, path: string): PageFile {
  const ending = name.slice(name.lastIndexOf(".") + 1) as keyof typeof TYPES;
  const read = readFileSync(path, "utf8");
  const text = ending === "js" ? withAddresses(read) : read;
  const etag = `"${createHash("sha256").update(text).digest("base64url")}"`;
  return { type: TYPES[ending], etag, text };
}

/** Replaces package names in imports by URLs, because browsers cannot resolve package names. */
function withAddresses(module: string): string {
  return module.replace(
    /\bfrom\s*"((?:preact|uplot)(?:\/[\w-]+)?)"/g,
    (_all, name: string) => `from"./${moduleName(name)}"`,
  );
}

function moduleName(packageName: string): string {
  return `${packageName.replace("/", "-")}.js`;
}

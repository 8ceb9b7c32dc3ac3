import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect } from "chai";
import { repositoryFolder } from "./repository-folder.js";

const KIB_BYTES = 1024;
const MAX_PAGE_BYTES = 12 * KIB_BYTES;
const OWN_MAX_BYTES: Readonly<Record<string, number>> = {
  "README.md": 10 * KIB_BYTES,
  "ARCHITECTURE.md": 8 * KIB_BYTES,
};
const GENERATED = "Made from the code by ";
/** Matches paths in backticks that name a file or folder of this repository. */
const OWN_PATH = /`((?:deploy|docs|packages|proto|services|test)\/[\w./-]+)`/g;

const read = (page: string): string => readFileSync(join(repositoryFolder, page), "utf8");

function pages(): readonly string[] {
  const listed = ["ls-files", "--cached", "--others", "--exclude-standard", "*.md"];
  const names = execFileSync("git", listed, { cwd: repositoryFolder, encoding: "utf8" }).trim().split("\n");
  return names.filter((name) => existsSync(join(repositoryFolder, name)));
}

/** Returns the text of a page without code blocks. */
const proseOf = (page: string): string => read(page).replace(/^ *```.*?^ *```$/gms, "");

function linksOf(page: string): readonly { readonly file: string; readonly anchor: string }[] {
  const text = proseOf(page);
  const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g), ...text.matchAll(/(?:src|srcset)="([^"]+)"/g)];
  return targets
    .map(([, target = ""]) => target)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => {
      const [path = "", anchor = ""] = target.split("#");
      return { file: path === "" ? page : normalize(join(dirname(page), path)), anchor };
    });
}

/** Returns the anchors that GitHub creates for headings. */
function anchorsOf(page: string): ReadonlySet<string> {
  const headings = [...proseOf(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading);
  const slug = (heading: string): string =>
    heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, "")
      .replaceAll(" ", "-");
  return new Set(headings.map(slug));
}

describe("the documentation", () => {
  it("links to files and headings that exist", () => {
    const broken = pages().flatMap((page) =>
      linksOf(page)
        .filter(({ file, anchor }) => {
          if (!existsSync(join(repositoryFolder, file))) return true;
          return anchor !== "" && !anchorsOf(file).has(anchor);
        })
        .map(({ file, anchor }) => `${page}: ${file}${anchor && `#${anchor}`}`),
    );
    expect(broken).to.deep.equal([]);
  });

  it("names files of the repository that exist", () => {
    const missing = pages().flatMap((page) =>
      [...read(page).matchAll(OWN_PATH)]
        .map(([, path = ""]) => path)
        .filter((path) => !existsSync(join(repositoryFolder, path)))
        .map((path) => `${page}: ${path}`),
    );
    expect(missing).to.deep.equal([]);
  });

  it("has short pages: 10 KiB of README, 8 KiB of ARCHITECTURE, 12 KiB of any other that is not generated", () => {
    const long = pages().filter((page) => {
      // A changelog grows with each release: its longest part counts.
      const parts = page === "CHANGELOG.md" ? read(page).split(/^## /m) : [read(page)];
      const text = parts.sort((one, other) => other.length - one.length)[0] ?? "";
      return !text.includes(GENERATED) && Buffer.byteLength(text) > (OWN_MAX_BYTES[page] ?? MAX_PAGE_BYTES);
    });
    expect(long).to.deep.equal([]);
  });

  it("has every page of docs in the index", () => {
    const indexed = new Set(linksOf("docs/README.md").map(({ file }) => file));
    const behind = new Set(linksOf("docs/reference/grpc.md").map(({ file }) => file));
    const missing = pages().filter((page) => page.startsWith("docs/") && !indexed.has(page) && !behind.has(page));
    expect(missing).to.deep.equal(["docs/README.md"]);
  });
});

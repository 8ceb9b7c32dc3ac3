import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { repositoryFolder } from "./repository-folder.js";

/** Pages with the sentences of the documents that diskmesh comes from. */
const PAGES = ["cpi-api-version-2", "dynamic-disks", "several-cpis", "vendor-passthru"];
/** A file with tests, or a part of the title of a test in the file above. */
const TEST = /^ *- ([A-Z])(\d*): `(.+)`$/gm;
const ROW = /^\| (?!the document |-)(.*?) *\| .*? *\| (.*?) *\|$/gm;

describe("the documents that diskmesh comes from", () => {
  for (const name of PAGES)
    it(`docs/reference/${name}.md names tests that exist, for each sentence`, () => {
      const page = readFileSync(join(repositoryFolder, `docs/reference/${name}.md`), "utf8");
      const existing = new Set<string>();
      let source = "";
      for (const [, letter = "", number = "", text = ""] of page.matchAll(TEST)) {
        const file = join(repositoryFolder, text);
        if (number === "") source = existsSync(file) ? readFileSync(file, "utf8") : "";
        else if (source.includes(text)) existing.add(`${letter}${number}`);
      }
      const rows = [...page.matchAll(ROW)];
      expect(rows).not.to.be.empty;
      const wrong = rows.flatMap(([, sentence, tests = ""]) =>
        tests.split(", ").flatMap((test) => (existing.has(test) ? [] : [`${sentence}: ${test || "no test"}`])),
      );
      expect(wrong).to.deep.equal([]);
    });
});

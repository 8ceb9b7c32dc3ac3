import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { referencePages } from "./reference/pages.js";
import { repositoryFolder } from "./repository-folder.js";

const folder = join(repositoryFolder, "docs/reference");

describe("docs/reference", () => {
  let pages: ReadonlyMap<string, string>;
  before(async () => {
    pages = await referencePages();
  });

  it("is made from the code: else run `npm run reference`", () => {
    for (const [name, page] of pages) expect(readFileSync(join(folder, name), "utf8"), name).to.equal(page);
  });

  it("has a page for each package of the protos, and no other", () => {
    const wanted = [...pages.keys()].filter((name) => name.startsWith("grpc/")).map((name) => name.slice(5));
    expect(readdirSync(join(folder, "grpc")).sort()).to.deep.equal(wanted.sort());
  });
});

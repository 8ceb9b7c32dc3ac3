import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { repositoryFolder } from "./repository-folder.js";

/** A reader types all of it into one shell, and later sections use variables of the tour. */
describe("README's lines in one shell", () => {
  it("what the tour has set names the same services further down", () => {
    const text = readFileSync(join(repositoryFolder, "README.md"), "utf8");
    const named = new Map<string, Set<string>>();
    for (const [, block = ""] of text.matchAll(/^```sh$(.*?)^```$/gms))
      for (const [, name = "", service = ""] of block.matchAll(/(?<![\w$])([A-Z]+)=(diskmesh(?:\.\w+)+)/g))
        named.set(name, (named.get(name) ?? new Set()).add(service));
    expect(named.get("R")).to.deep.equal(new Set(["diskmesh.registry.v1.DiskRegistryService"]));
    expect(named.get("D")).to.deep.equal(new Set(["diskmesh.director.v1.DynamicDiskService"]));
  });
});

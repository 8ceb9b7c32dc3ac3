import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { expandGlob } from "./glob.js";

describe("globs", () => {
  const folder = temporaryFolder();

  before(() => {
    for (const name of ["a", "b"]) mkdirSync(join(folder, name));
    for (const name of ["a/nvme0", "a/nvme1", "a/.hidden", "a/x+y", "a/x]y", "b/nvme0", "sda"])
      writeFileSync(join(folder, name), "");
  });

  const rows: [string, string[]][] = [
    ["sda", ["sda"]],
    ["missing", []],
    ["missing/*", []],
    ["sda/*", []],
    ["a/nvme?", ["a/nvme0", "a/nvme1"]],
    ["*/nvme0", ["a/nvme0", "b/nvme0"]],
    ["a/nvme[1-9]", ["a/nvme1"]],
    ["a/nvme[!1]", ["a/nvme0"]],
    ["a/n*0", ["a/nvme0"]],
    ["a/.*", ["a/.hidden"]],
    ["a/x+*", ["a/x+y"]],
    ["a/*[*", []],
    ["a/x]*", ["a/x]y"]],
    ["a/*", ["a/nvme0", "a/nvme1", "a/x+y", "a/x]y"]],
  ];
  for (const [pattern, names] of rows)
    it(`${pattern} -> ${names.join(", ") || "nothing"}`, async () => {
      const found = await expandGlob(join(folder, pattern));
      expect(found).to.deep.equal(names.map((name) => join(folder, name)));
    });
});

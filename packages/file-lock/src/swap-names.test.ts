import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { swapNames } from "./swap-names.js";

describe("an exchange of two names", () => {
  it("gives each folder the name of the other", async () => {
    const folder = temporaryFolder();
    for (const name of ["one", "other"]) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, `file-of-${name}`), "");
    }
    await swapNames(join(folder, "one"), join(folder, "other"));
    expect(readdirSync(join(folder, "one"))).to.deep.equal(["file-of-other"]);
    expect(readdirSync(join(folder, "other"))).to.deep.equal(["file-of-one"]);
  });

  it("fails when a name is missing", async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, "one"));
    const error = await swapNames(join(folder, "one"), join(folder, "other")).catch((failure: unknown) => failure);
    expect(error).to.have.property("code", "ENOENT");
  });
});

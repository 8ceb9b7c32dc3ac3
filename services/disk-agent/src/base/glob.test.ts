import { execFileSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { expandGlob, parseGlob } from "./glob.js";

describe("globs", () => {
  const folder = temporaryFolder();

  before(() => {
    for (const name of ["a", "b", "f\\x20g"]) mkdirSync(join(folder, name));
    for (const name of ["a/nvme0", "a/nvme1", "a/.hidden", "a/x+y", "a/x]y", "b/nvme0", "sda", "sdb"])
      writeFileSync(join(folder, name), "");
    for (const name of ["p (1)", "p|q", "p\\x20q", "p{q}", "f\\x20g/h"]) writeFileSync(join(folder, name), "");
    symlinkSync("sda", join(folder, "link"));
    symlinkSync("nowhere", join(folder, "link-to-nothing"));
    symlinkSync("a", join(folder, "link-to-folder"));
  });

  const rows: [string, string[]][] = [
    ["sda", ["sda"]],
    ["/sda/", ["sda"]],
    ["missing", []],
    ["missing/*", []],
    ["sda/*", []],
    ["a/nvme?", ["a/nvme0", "a/nvme1"]],
    ["*/nvme0", ["a/nvme0", "b/nvme0", "link-to-folder/nvme0"]],
    ["**/nvme0", ["a/nvme0", "b/nvme0", "link-to-folder/nvme0"]],
    ["a/nvme[1-9]", ["a/nvme1"]],
    ["a/nvme[!1]", ["a/nvme0"]],
    ["a/n*0", ["a/nvme0"]],
    ["a/.*", ["a/.hidden"]],
    ["a/x+*", ["a/x+y"]],
    ["a/*[*", []],
    ["a/x]*", ["a/x]y"]],
    ["a/*", ["a/nvme0", "a/nvme1", "a/x+y", "a/x]y"]],
    ["{sda,sdb}", ["sda", "sdb"]],
    ["{sdb,missing,sda,sda}", ["sda", "sdb"]],
    ["sd{a..c}", ["sda", "sdb"]],
    ["{a/nvme[0],b/nvme?}", ["a/nvme0", "b/nvme0"]],
    ["link*", ["link", "link-to-folder", "link-to-nothing"]],
    ["p (1)*", ["p (1)"]],
    ["p*(1)", ["p (1)"]],
    ["p[ ](1)", ["p (1)"]],
    ["p|*", ["p|q"]],
    ["p\\x20*", ["p\\x20q"]],
    ["f\\x20g/*", ["f\\x20g/h"]],
    ["p{q}*", ["p{q}"]],
  ];
  for (const [pattern, names] of rows)
    it(`${pattern} -> ${names.join(", ") || "nothing"}`, async () => {
      const found = await expandGlob(parseGlob(`${folder}/${pattern}`));
      expect(found).to.deep.equal(names.map((name) => join(folder, name)));
    });

  for (const [type, ...numbers] of [
    ["b", "7", "250"],
    ["c", "1", "3"],
  ] as const)
    it(`a device node of type ${type} is matched by *, by a list and by its name`, function () {
      const name = `node-${type}`;
      try {
        execFileSync("mknod", [join(folder, name), type, ...numbers], { stdio: "pipe" });
      } catch (error) {
        skipBecause(this, `mknod is not allowed here: ${(error as Error).message}`);
      }
      return Promise.all(
        [`${name.slice(0, -1)}*${type}`, `{${name},missing}`, name].map(async (pattern) =>
          expect(await expandGlob(join(folder, pattern)), pattern).to.deep.equal([join(folder, name)]),
        ),
      );
    });

  it("the machine's own device nodes are matched", async () => {
    expect(await expandGlob("/dev/{null,zero}")).to.deep.equal(["/dev/null", "/dev/zero"]);
    expect(await expandGlob("/dev/nul[l]")).to.deep.equal(["/dev/null"]);
  });

  const bad: [string, RegExp][] = [
    ["dev/*", /"dev\/\*" must be an absolute path/],
    ["/dev/\n*", /must be an absolute path/],
    ["/dev/sd[z-a]", /"\/dev\/sd\[z-a\]" is not a valid glob: Range out of order in character class/],
    ["/dev/{sda,sd[z-a]}", /is not a valid glob: Range out of order/],
    ["/dev/{sda,sdb*", /is not a valid glob: Unterminated group/],
    ["/dev/sd{1..1001}", /stands for more than 1000 patterns/],
    ["/dev/sd{a..\u{ffff}}{a..z}", /stands for more than 1000 patterns/],
    [`/dev/${"{a,b}".repeat(800)}`, /stands for more than 1000 patterns/],
  ];
  for (const [glob, says] of bad)
    it(`${JSON.stringify(glob.slice(0, 40))} is refused`, () => {
      expect(() => parseGlob(glob)).to.throw(says);
    });

  for (const glob of ["/dev/sd{a..z}{1..16}", "/dev/disk/by-id/{ata,nvme,scsi,wwn}-*", "/dev/[a", "/dev/{a}"])
    it(`${glob} is accepted`, () => {
      expect(parseGlob(glob)).to.equal(glob);
    });
});

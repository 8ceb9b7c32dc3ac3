import { copyFileSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { leaveToVerify, skipBecause, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { stepsOf } from "./operations/document.js";
import { DocumentedMesh } from "./operations/documented-mesh.js";
import { install, release } from "./operations/new-machines.js";
import { plugIn } from "./operations/sections.js";
import { loopbackSite } from "./operations/site.js";
import { repositoryFolder } from "./repository-folder.js";

/** Maximum lines of shell that a small installation takes. */
const MAX_LINES = 39;

describe("docs/operate/small-installation.md", function () {
  this.timeout(600_000);
  this.bail(true);
  const page = readFileSync(join(repositoryFolder, "docs/operate/small-installation.md"), "utf8");
  let mesh: DocumentedMesh | undefined;

  before(async function () {
    leaveToVerify(this);
    for (const program of ["bash", "nats-server"]) skipWithout(this, program);
    if (process.platform !== "linux") skipBecause(this, "the loopback interface has no addresses for machines here");
    const { version, file } = await release();
    mesh = new DocumentedMesh(await loopbackSite(), {
      values: { VERSION: version, DRIVES: '"MACHINE/drives/*"' },
      prepare: (machine) => {
        install(machine.folder);
        copyFileSync(file, join(machine.folder, "home", basename(file)));
        if (machine.name.startsWith("host-")) for (const number of [1, 2]) plugIn(machine, number);
      },
    });
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  it(`takes at most ${MAX_LINES} lines of shell, and no YAML`, () => {
    const scripts = stepsOf(page).flatMap(({ parts }) => parts.map(({ script }) => script));
    const lines = scripts
      .join("")
      .split("\n")
      .filter((line) => line.trim() !== "");
    expect(lines).to.have.lengthOf.at.most(MAX_LINES);
    expect(page).not.to.match(/```ya?ml|<<'?END/);
  });

  for (const step of stepsOf(page))
    it(`${step.section}, line ${step.line}`, () => (mesh as DocumentedMesh).follow(step));

  it("new-mesh changes no folder that has a mesh", async () => {
    const control = (mesh as DocumentedMesh).machine("control-1");
    expect(await control.type("diskmesh new-mesh $STATE/diskmesh $ADDRESS 2>&1 || true")).to.contain("has a mesh");
  });
});

import type { DatabaseProcess } from "@diskmesh/tablet/testing";
import { leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { AWAY, awayRows, isThere } from "./operations/away.js";
import { AwayScene } from "./operations/away-scene.js";
import type { DocumentedMesh } from "./operations/documented-mesh.js";
import { newMachines, whatIsMissing } from "./operations/new-machines.js";
import { document, followSection, SECTIONS } from "./operations/sections.js";
import { loopbackSite } from "./operations/site.js";

describe("docs/operate", function () {
  this.timeout(1_200_000);
  // Each step depends on the earlier ones.
  this.bail(true);
  let mesh: DocumentedMesh;
  let database: DatabaseProcess | undefined;

  before(async function () {
    leaveToVerify(this);
    const missing = whatIsMissing();
    if (missing !== undefined) skipBecause(this, missing);
    if (process.platform !== "linux") skipBecause(this, "the loopback interface has no addresses for machines here");
    const machines = await newMachines(await loopbackSite(), { host: "127.0.0.1", launcher: [] });
    if (typeof machines === "string") skipBecause(this, machines);
    ({ mesh, database } = machines);
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  for (const section of SECTIONS) it(section, () => followSection(mesh, section));

  describe("what happens when a part is away", function () {
    this.bail(false);
    let scene: AwayScene;
    before(async () => {
      scene = new AwayScene(mesh, database);
      await scene.begin();
    });
    after(() => scene?.end());

    it("the table has a row for each test, and each row has one", () => {
      expect(awayRows(document)).to.deep.equal(Object.keys(AWAY));
    });
    for (const [part, proof] of Object.entries(AWAY))
      it(part, async function () {
        if (typeof proof === "object") return expect(isThere(proof), `${proof.file}: ${proof.title}`).to.equal(true);
        const why = await proof(scene);
        if (why !== undefined) skipBecause(this, why);
      });
  });
});

import type { Cure } from "@diskmesh/api/common";
import { eventually, leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import type { Stuck } from "./stuck/situation.js";
import { SITUATIONS } from "./stuck/situations.js";
import { StuckMesh } from "./stuck/stuck-mesh.js";

const PATIENCE = { timeoutMs: 60_000 };

/** What an operator sees who knows nothing, and does nothing but what is said. */
describe("stuck things on a mesh", function () {
  this.timeout(300_000);
  let mesh: StuckMesh;

  before(async function () {
    leaveToVerify(this);
    mesh = await StuckMesh.start();
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  const textOf = ({ what, command }: Cure): string => (command === "" ? what : `${what}: ${command}`);

  /** The command and the page say the same, and the first line all of it in short. */
  async function isTold({ asked: [kind, name], root, reasons, row, cure }: Stuck): Promise<Cure> {
    return eventually(async () => {
      const [first] = (await mesh.done(`why ${kind} ${name}`)).split("\n");
      if (!root.test(first ?? "")) throw new Error(`the first line is not ${root}: ${first}`);
      const { causes } = await mesh.why(kind, name);
      expect(causes.map(({ reason }) => reason)).to.include.members([...reasons]);
      for (const { reason, since } of causes.filter((cause) => reasons.includes(cause.reason)))
        if (since !== undefined) expect(Date.now() - Date.parse(String(since)), reason).to.be.within(-5_000, 300_000);
      const onPage = await mesh.pageWhy(kind, name);
      expect(onPage.causes.map(({ reason }) => reason)).to.include.members([...reasons]);
      if (row !== undefined) expect(String((await mesh.pageRow(row[0]))?.trouble), row[0]).to.match(row[1]);
      const cures = causes.flatMap((cause) => cause.cures);
      const found = cures.find((each) => cure.test(textOf(each)));
      if (found === undefined) throw new Error(`no cure ${cure} among: ${cures.map(textOf).join("; ")}`);
      expect(onPage.causes.flatMap((cause) => cause.cures)).to.deep.include(found);
      return found;
    }, PATIENCE);
  }

  async function isWell({ asked: [kind, name], row, cured }: Stuck): Promise<void> {
    const isCured = async () => {
      const { causes } = await mesh.why(kind, name);
      expect(causes.map(({ reason }) => reason)).to.deep.equal([]);
    };
    await eventually(cured ?? isCured, PATIENCE);
    const [key, trouble] = row ?? ["", /^$/];
    // A task that has failed is told of for a while.
    if (key === "" || key.startsWith("task ")) return;
    await eventually(async () => {
      expect(String((await mesh.pageRow(key))?.trouble)).not.to.match(trouble);
    }, PATIENCE);
  }

  for (const { title, problem, make } of SITUATIONS)
    it(`${title}: it is told, on the page, too, and what is told cures it`, async function () {
      const why = problem?.();
      if (why !== undefined) skipBecause(this, why);
      const stuck = await make(mesh);
      const { command } = await isTold(stuck);
      if (command !== "") await mesh.done(command);
      await stuck.follow?.();
      await isWell(stuck);
      await stuck.after?.();
    });
});

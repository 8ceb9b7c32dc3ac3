import { readdirSync, readlinkSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { fetchDocumentDatabase } from "@diskmesh/tablet/testing";
import { eventually, leaveToVerify, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { AskedProgram } from "./namespaces/asked-program.js";
import { isolationProblem } from "./namespaces/isolation.js";
import { CUT_OFF } from "./operations/cut-off.js";
import { whatIsMissing } from "./operations/new-machines.js";
import { SECTIONS } from "./operations/sections.js";

/** Last typed section: the mesh has a disk then, and the other pages do not depend on networks. */
const LAST_SECTION = "The first deployment and the first disk";
const PUT_UP = SECTIONS.slice(0, SECTIONS.indexOf(LAST_SECTION) + 1);

describe("docs/operate in network namespaces", function () {
  this.timeout(600_000);
  // Each step depends on the earlier ones.
  this.bail(true);
  let program: AskedProgram;

  before(async function () {
    leaveToVerify(this);
    const problem = isolationProblem() ?? whatIsMissing();
    if (problem !== undefined) skipBecause(this, problem);
    if (process.env.DISKMESH_TEST_MONGODB_URL)
      skipBecause(this, "the database is elsewhere, out of the namespaces' reach");
    await fetchDocumentDatabase();
    program = new AskedProgram(fileURLToPath(new URL("./operations/main.js", import.meta.url)), temporaryFolder());
  });
  after(() => program?.[Symbol.asyncDispose]());

  for (const section of PUT_UP) it(section, () => program.ask(section));

  for (const part of Object.keys(CUT_OFF))
    it(`cut off, so that packets to it vanish: ${part}`, () => program.ask(part));

  it("leaves no process, mount or network behind when it is killed", async () => {
    const mounts = mountsOf(program.pid);
    expect(processesWith(mounts)).to.have.lengthOf.above(20);
    await program[Symbol.asyncDispose]();
    await eventually(() => expect(processesWith(mounts)).to.deep.equal([]));
    expect(readdirSync("/sys/class/net").filter((name) => name.startsWith("mesh"))).to.deep.equal([]);
  });
});

/** Returns the mount namespace of a process. Processes that it starts share it, even in other networks. */
function mountsOf(pid: number | string): string {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch {
    return "it has ended";
  }
}

function processesWith(mounts: string): string[] {
  return readdirSync("/proc").filter((name) => /^\d+$/.test(name) && mountsOf(name) === mounts);
}

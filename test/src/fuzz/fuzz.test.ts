import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Child, COLLECTS_ON_SIGUSR2, eventually, leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { type FuzzedMesh, fuzzedMesh } from "./fuzzed-mesh.js";
import { inputAt } from "./input-at.js";
import { ProtoMessages } from "./proto-messages.js";
import { resultLines } from "./result-lines.js";
import { fuzz } from "./run.js";
import { keptSeedsOf } from "./seeds.js";
import { GrpcSurface } from "./surfaces/grpc.js";
import { SURFACE_NAMES } from "./surfaces.js";
import { usageOf, usages } from "./watched-processes.js";

/** Fixed seed. Inputs that other seeds find are stored as kept seeds. */
const SEED = 1;
const INPUTS_EACH = 50;
/** Number of inputs after which V8 has compiled the code of most routes. */
const WARMING_INPUTS = 2_000;
const COUNTED_INPUTS = 4_000;
/**
 * Limit of the memory growth in bytes. Leaves room for calls in progress and for bounded state such as ended tasks. A
 * request allocates 7 KB.
 */
const MAX_BYTES_PER_INPUT = 2_000;
/** Limit of a wait in ms. Larger than for a manual run, because tests share the machine. */
const WAIT_LIMIT_MS = 4_000;
const PAUSE_MS = 5_500;

describe("fuzz", function () {
  this.timeout(600_000);

  const silent = () => {};
  let fuzzed: FuzzedMesh;

  before(async function () {
    leaveToVerify(this);
    fuzzed = await fuzzedMesh(silent, WAIT_LIMIT_MS);
  });
  after(() => fuzzed?.[Symbol.asyncDispose]());

  it("of every surface for a moment, with all kept seeds, finds nothing, and a disk can be provided", async () => {
    const at = { last: INPUTS_EACH - 1 };
    const result = await fuzz({ seed: SEED, surfaces: SURFACE_NAMES, at, report: silent }, fuzzed);
    expect(result.finds, resultLines(result).join("\n")).to.deep.equal([]);
    expect(result.provided).to.be.above(0);
    for (const { name, sent } of result.lanes) expect(sent, name).to.equal(INPUTS_EACH + keptSeedsOf(name).length);
    const counts = new Map(result.lanes.map((lane) => [lane.name, lane.counts]));
    // Some calls must pass the role check.
    expect([...(counts.get("grpc")?.keys() ?? [])]).to.include.members(["status 7", "status 12"]);
    for (const name of ["http2", "nbd"]) expect(counts.get(name)?.get("answered"), name).to.be.above(0);
    expect([...(counts.get("registry-http")?.keys() ?? [])].join()).to.match(/200|401|404/);
    expect([...(counts.get("https")?.keys() ?? [])].join()).to.match(/20\d|404|400/);
    expect(counts.get("https")?.get("forged tokens refused"), "forged tokens").to.be.above(0);
    expect(counts.get("stemcells")?.get("taken"), "stemcells taken").to.be.above(0);
  });

  it("of HTTPS with thousands of requests does not grow the director's memory", async () => {
    const held = async (last: number) => {
      const result = await fuzz({ seed: SEED, surfaces: ["https"], at: { first: 0, last }, report: silent }, fuzzed);
      expect(result.finds, resultLines(result).join("\n")).to.deep.equal([]);
      return (await fuzzed.usages()).get("director")?.heapBytes ?? Number.NaN;
    };
    const warm = await held(WARMING_INPUTS - 1);
    const after = await held(COUNTED_INPUTS - 1);
    expect((after - warm) / COUNTED_INPUTS, "bytes for each input").to.be.below(MAX_BYTES_PER_INPUT);
  });

  it("of a stopped service reports that its clients wait too long", async () => {
    const paused = fuzzed.target.mesh.process("cpi-dispatcher");
    const running = fuzz({ seed: SEED, surfaces: ["mbus"], minutes: 1, report: silent }, fuzzed);
    paused.signal("SIGSTOP");
    await sleep(PAUSE_MS);
    paused.signal("SIGCONT");
    const { finds } = await running;
    expect(finds[0]?.what).to.match(/^cpi-dispatcher kept a client waiting/);
    expect(finds[0]?.suspects.map(({ surface }) => surface)).to.include("mbus");
  });

  it("of a process that ends reports the process and the last inputs", async () => {
    const running = fuzz({ seed: SEED, surfaces: ["mbus"], minutes: 1, report: silent }, fuzzed);
    await fuzzed.target.mesh.process("host-2").kill();
    const result = await running;
    expect(result.finds.map(({ what }) => what).join()).to.match(/host-2 ended with SIGKILL/);
    expect(resultLines(result).join("\n")).to.match(new RegExp(`--seed ${SEED} --surface mbus --at \\d+`));
  });
});

describe("the memory of a process under fuzz", function () {
  this.timeout(600_000);

  it("excludes garbage that was not collected yet", async () => {
    const hold = "let held = Array.from({ length: 25 }, () => new Array(1e6).fill(1));";
    const program = `${hold} held = held.slice(0, 5); console.log("ready"); setInterval(() => held, 1_000);`;
    const child = new Child({
      name: "holding",
      command: process.execPath,
      args: ["-e", program],
      env: COLLECTS_ON_SIGUSR2,
      logFile: join(temporaryFolder(), "log"),
    });
    await eventually(() => child.output.includes("ready"));
    const heldAndNotBytes = usageOf(child.pid)?.residentBytes ?? 0;
    const held = (await usages(new Map([["holding", child]]))).get("holding");
    child.signal("SIGKILL");
    expect(heldAndNotBytes).to.be.above(200e6);
    expect(held?.residentBytes).to.be.below(heldAndNotBytes - 140e6);
    expect(held?.residentBytes, "what it holds").to.be.above(40e6);
  });
});

describe("an input of fuzz", () => {
  it("depends on seed, surface and index only", () => {
    const surface = new GrpcSurface({} as never, new ProtoMessages());
    expect(inputAt(surface, 1, 7)).to.deep.equal(inputAt(surface, 1, 7));
    expect(inputAt(surface, 1, 7)).not.to.deep.equal(inputAt(surface, 1, 8));
    expect(inputAt(surface, 2, 7)).not.to.deep.equal(inputAt(surface, 1, 7));
    expect(inputAt({ ...surface, name: "other", next: (random) => surface.next(random) }, 1, 7)).not.to.deep.equal(
      inputAt(surface, 1, 7),
    );
  });
});

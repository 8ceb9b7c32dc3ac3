import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { UnavailableError } from "@diskmesh/domain";
import { leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { BLOCK_BYTES, DiskContent } from "../mesh/disk-content.js";
import { Random } from "../random.js";
import { repositoryFolder } from "../repository-folder.js";
import { figuresOf, Measures, measured } from "./measures.js";
import type { SoakReport } from "./report.js";
import { growth } from "./resources.js";
import { planFaults } from "./schedule.js";

const MAIN = join(repositoryFolder, "test/dist/soak/main.js");
const TIMEOUT_MS = 280_000;

describe("a short soak", function () {
  this.timeout(TIMEOUT_MS);

  it("keeps every promise with all operations and some faults on the embedded store, and reports the work done", function () {
    leaveToVerify(this);
    const folder = temporaryFolder();
    const args = [
      "--minutes",
      "0.35",
      "--store",
      "embedded",
      "--report",
      folder,
      "--faults",
      "kill,stop,NATS away,EIO",
    ];
    const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], {
      encoding: "utf8",
      timeout: TIMEOUT_MS,
    });
    expect(status, `${stdout}\n${stderr}`).to.equal(0);
    const report: SoakReport = JSON.parse(readFileSync(join(folder, "embedded/report.json"), "utf8"));
    expect(report.violations).to.deep.equal([]);
    const done = new Map(report.operations.map((one) => [one.name, one.done]));
    for (const name of ["NBD write", "registry.PublishDisk", "registry.RemoveDevice", "disks.ProvideDisk"])
      expect(done.get(name), name).to.be.above(0);
    expect(report.hadFaults, "faults").not.to.deep.equal([]);
    expect(report.faults.find(({ name }) => name === "full disk")?.skipped).to.equal("not asked for");
    expect(report.samples, "samples").not.to.deep.equal([]);
  });
});

describe("the schedule of a soak", () => {
  const faults = [
    { name: "one", lengthMs: 1_000, targets: ["a"] },
    { name: "many", lengthMs: 20_000, targets: ["a", "b", "c"] },
  ];
  const plan = (seed: number, totalMs: number) => planFaults({ faults, totalMs, lanes: 2, random: new Random(seed) });

  it("is the same for the same seed, and differs for another seed", () => {
    expect(plan(1, 600_000)).to.deep.equal(plan(1, 600_000));
    expect(plan(1, 600_000)).not.to.deep.equal(plan(2, 600_000));
  });

  it("has every fault on every target, at most one per lane at once, all within the soak's time", () => {
    const planned = plan(3, 600_000);
    const had = new Set(planned.map(({ fault, target }) => `${fault} ${target}`));
    expect([...had].sort()).to.deep.equal(["many a", "many b", "many c", "one a"]);
    for (const { beginMs, lengthMs } of planned) {
      expect(beginMs + lengthMs).to.be.at.most(600_000);
      const atOnce = planned.filter((one) => one.beginMs <= beginMs && beginMs < one.beginMs + one.lengthMs);
      expect(atOnce.length).to.be.at.most(2);
    }
  });

  it("skips a fault without targets, and shortens faults in a short soak", () => {
    expect(planFaults({ faults: [], totalMs: 1_000, lanes: 1, random: new Random(1) })).to.deep.equal([]);
    expect(Math.max(...plan(4, 20_000).map(({ lengthMs }) => lengthMs))).to.be.at.most(4_000);
  });
});

describe("the expected content of a disk", () => {
  const other = Buffer.alloc(BLOCK_BYTES, "other");

  it("is zeros at first, and then the acknowledged writes only", () => {
    const content = new DiskContent("d", 2);
    expect(content.look(0, Buffer.alloc(BLOCK_BYTES))).to.equal(undefined);
    const written = content.begin(0);
    content.settle(0, written);
    expect(content.look(0, written)).to.equal(undefined);
    expect(content.look(0, Buffer.alloc(BLOCK_BYTES)), "lost").to.match(/holds zeros, not "d block 0 write 1"/);
    expect(content.look(1, other), "somebody else's").to.match(/block 1 of d holds .*not zeros/);
  });

  it("is the former or the new content after an unacknowledged write, and stays as first read", () => {
    const content = new DiskContent("d", 1);
    const first = content.begin(0);
    content.settle(0, first);
    const second = content.begin(0);
    expect(content.look(0, first)).to.equal(undefined);
    expect(content.look(0, second), "it came late").to.match(/write 2", not "d block 0 write 1"/);
    const torn = Buffer.concat([second.subarray(0, 100), first.subarray(100)]);
    expect(content.look(0, torn)).to.match(/and other things/);
  });
});

describe("the figures of a soak", () => {
  it("percentiles are values that were measured", () => {
    const tookMs = Array.from({ length: 100 }, (_, index) => 100 - index);
    expect(figuresOf("x", tookMs)).to.deep.equal({ name: "x", done: 100, p50Ms: 50, p99Ms: 99, longestMs: 100 });
    expect(figuresOf("x", [])).to.include({ done: 0, p50Ms: 0 });
  });

  it("calls are timed by method, errors are counted by kind, and streams are passed on", async () => {
    const measures = new Measures();
    const client = measured(
      {
        get: (value: number) => Promise.resolve(value),
        fail: () => Promise.reject(new RangeError("out of it")),
        wait: () => Promise.reject(new UnavailableError("it starts")),
        watch: () => [1, 2],
      },
      "service",
      measures,
    );
    expect(await client.get(7)).to.equal(7);
    for (let times = 0; times < 2; times++) await client.fail().catch(() => {});
    await client.wait().catch(() => {});
    expect(client.watch()).to.deep.equal([1, 2]);
    expect(measures.figures.map(({ name, done }) => [name, done])).to.deep.equal([["service.Get", 1]]);
    expect(measures.errors).to.deep.equal([
      { name: "service.Fail", kind: "RangeError", ending: "failed", count: 2, example: "out of it" },
      { name: "service.Wait", kind: "UNAVAILABLE", ending: "to be repeated", count: 1, example: "it starts" },
    ]);
  });

  it("growth compares descriptors and memory at rest, and skips new processes", () => {
    const at = (descriptors: number, residentMib: number) => ({
      atMs: 0,
      processes: { service: { pid: 1, descriptors, residentMib } },
    });
    expect(growth(at(30, 100), at(40, 150))).to.deep.equal([]);
    expect(growth(at(30, 100), at(51, 265))).to.have.length(2);
    expect(growth({ atMs: 0, processes: {} }, at(1_000, 1_000))).to.deep.equal([]);
  });
});

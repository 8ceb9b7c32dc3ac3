import type { Logger } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { LineLimit } from "./line-limit.js";

const WINDOW_MS = 100;

describe("log lines of refused and failed calls", () => {
  const told: object[] = [];
  const log = { warn: (fields: object) => told.push(fields) } as unknown as Logger;
  beforeEach(() => {
    told.length = 0;
  });

  const admitted = (limit: LineLimit, caller: string, count: number): number =>
    Array.from({ length: count }, () => limit.admits(caller)).filter(Boolean).length;

  it("are limited per caller, and the suppressed ones are counted for each", async () => {
    const limit = new LineLimit(log, WINDOW_MS);
    expect(admitted(limit, "disk-agent host-1", 10_000)).to.equal(120);
    expect(admitted(limit, "disk-agent host-2", 5)).to.equal(5);
    await eventually(() => expect(told).to.deep.equal([{ caller: "disk-agent host-1", suppressedLines: 9_880 }]));
    expect(admitted(limit, "disk-agent host-1", 1)).to.equal(1);
  });

  it("are limited in total, however many callers there are", async () => {
    const limit = new LineLimit(log, WINDOW_MS);
    const lines = Array.from({ length: 5_000 }, (_, at) => admitted(limit, `address ${at}`, 1));
    expect(lines.reduce((sum, count) => sum + count)).to.equal(1_200);
    await eventually(() => expect(told).to.deep.equal([{ caller: "others", suppressedLines: 3_800 }]));
  });
});

import { ManualClock } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { TaskRun } from "./task-run.js";

describe("one task while a worker runs it", () => {
  it("many lanes listen for its end -> Node warns of no listener leak", async () => {
    const warnings: string[] = [];
    const onWarning = ({ name }: Error) => void warnings.push(name);
    process.on("warning", onWarning);
    const run = new TaskRun(1, {} as never, new ManualClock(), {} as never);
    for (const signal of [run.stopping, run.stopped])
      for (let lane = 0; lane < 40; lane++) signal.addEventListener("abort", () => {});
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", onWarning);
    expect(warnings).to.deep.equal([]);
  });
});

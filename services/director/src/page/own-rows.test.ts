import { expect } from "chai";
import type { Task } from "../store/task.js";
import { known } from "../testing/known.js";
import { taskRow } from "./own-rows.js";

const task = { taskId: 7, state: "processing", result: "", createdAtMs: 1, startedAtMs: 2, endedAtMs: null } as Task;

describe("rows of tasks", () => {
  it("without trouble -> since the start of their state", () => {
    const row = taskRow(task, known(), undefined);
    expect(row).to.include({ sinceMs: 2 }).and.not.to.have.property("trouble");
  });

  it("a progress -> its percent and text", () => {
    const latest = { percent: 42, atMs: 3 };
    const row = taskRow(task, known(), { first: latest, latest, text: "writes bank 2" });
    expect(row.progress).to.equal("42 %: writes bank 2");
  });

  it("a long error -> its beginning, with a mark that it goes on", () => {
    const row = taskRow({ ...task, state: "error", endedAtMs: 900, result: "no ".repeat(200) }, known(), undefined);
    expect(row.trouble).to.match(/^(no ){100}…$/);
    expect(row.sinceMs).to.equal(900);
  });
});

import { expect } from "chai";
import type { ShownLock } from "../locks/locks.js";
import type { Task } from "../store/task.js";
import { taskRow } from "./own-rows.js";

const NOW_MS = 1_000_000;
const task = { taskId: 7, state: "processing", result: "", createdAtMs: 1, startedAtMs: 2, endedAtMs: null } as Task;
const known = { lockFor: () => undefined, callsOf: () => [], stuckAfterMs: 100, nowMs: NOW_MS };
const failed = (reason: string, requestId: string | undefined): Task => {
  return {
    ...task,
    state: "error",
    endedAtMs: NOW_MS - 1,
    result: "no",
    failure: { reason, about: {}, code: 9 },
    requestId,
  };
};

describe("rows of tasks", () => {
  it("a failure of the mesh is trouble, and a caller's mistake is none, unless the director itself made it", () => {
    expect(taskRow(failed("UNAVAILABLE", "r"), known)).to.include({ trouble: "no", sinceMs: NOW_MS - 1 });
    for (const reason of [
      "INVALID_ARGUMENT",
      "NOT_FOUND",
      "INVALID_STATE",
      "DISK_IN_USE",
      "DISK_DIFFERS",
      "PERMISSION_DENIED",
    ])
      expect(taskRow(failed(reason, "r"), known), reason).not.to.have.property("trouble");
    expect(taskRow(failed("INVALID_STATE", undefined), known)).to.include({ trouble: "no" });
  });

  it("a long error -> its beginning, with a mark that it goes on", () => {
    const { trouble } = taskRow({ ...failed("UNAVAILABLE", "r"), result: "no ".repeat(200) }, known);
    expect(trouble).to.match(/^(no ){100}…$/);
  });

  it("a task that waits for a lock -> since its wait for this owner, not since its start", () => {
    const lock = { type: "disk", resource: "d", taskId: 3, what: "", sinceMs: 500 } as ShownLock;
    const row = taskRow(task, { ...known, lockFor: () => lock });
    expect(row).to.include({ trouble: "waits for the lock disk:d, which task 3 holds", sinceMs: 500 });
  });

  it("a call that takes long -> since the call", () => {
    const call = { callId: "c", method: "create_vm", dispatcher: "a", things: [], sinceMs: 9_000 };
    const row = taskRow(task, {
      ...known,
      callsOf: () => [{ ...call, taskId: 7, directorGeneration: 1, requestId: "" }],
    });
    expect(row).to.include({ sinceMs: 9_000 });
    expect(row.trouble).to.match(/create_vm/);
  });
});

import { Task, TaskState } from "@diskmesh/api/director";
import { expect } from "chai";
import { statesNamed, taskObject } from "./task-text.js";

/** The states that the bosh CLI knows. */
const KNOWN = ["queued", "processing", "cancelling", "done", "error", "cancelled", "timeout"];

describe("tasks in the format of BOSH's clients", () => {
  it("each state -> a state that they know; a held task counts as waiting", () => {
    const states = Object.values(TaskState).filter((state) => !/UNSPECIFIED|UNRECOGNIZED/.test(state));
    expect(states).to.include(TaskState.HELD);
    for (const state of states)
      expect(taskObject(Task.fromPartial({ state })))
        .to.have.property("state")
        .oneOf(KNOWN);
    expect(statesNamed(["queued", "done"])).to.deep.equal([TaskState.QUEUED, TaskState.HELD, TaskState.DONE]);
    expect(() => statesNamed(["held"])).to.throw("an unknown task state");
  });
});

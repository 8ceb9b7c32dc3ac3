import { expect } from "chai";
import { hasEnded, restored, type Task, type TaskState } from "../store/task.js";
import { end, MAX_RESULT_LENGTH, newTask, putBack, requestStop, resume, take } from "./task.js";

const QUEUED = newTask(
  {
    taskId: 7,
    description: "detach disk `d`",
    queue: "dynamic_disks",
    user: "ann",
    deployment: "",
    job: { type: "detach_dynamic_disk", diskName: "d" },
  },
  1_000,
);
const CANCEL = { as: "cancelled", why: "ann cancelled it" } as const;
const EXPIRE = { as: "timeout", why: "took too long" } as const;

function inState(state: TaskState): Task {
  switch (state) {
    case "queued":
      return QUEUED;
    case "processing":
      return take(QUEUED, 2_000, { again: false });
    case "held":
      return restored(inState("processing"));
    case "cancelling":
      return requestStop(inState("processing"), CANCEL, 3_000);
    case "done":
      return end(inState("processing"), { event: "succeed", result: "ok" }, 4_000);
    case "error":
      return end(inState("processing"), { event: "fail", result: "bad" }, 4_000);
    case "cancelled":
      return requestStop(QUEUED, CANCEL, 4_000);
    case "timeout":
      return requestStop(QUEUED, EXPIRE, 4_000);
  }
}

const EVENTS = {
  resume: (task: Task) => resume(task),
  take: (task: Task) => take(task, 5_000, { again: false }),
  "put back": (task: Task) => putBack(task),
  cancel: (task: Task) => requestStop(task, CANCEL, 5_000),
  expire: (task: Task) => requestStop(task, EXPIRE, 5_000),
  succeed: (task: Task) => end(task, { event: "succeed", result: "ok" }, 5_000),
  fail: (task: Task) => end(task, { event: "fail", result: "bad" }, 5_000),
  heed: (task: Task) => end(task, { event: "heed" }, 5_000),
};
type EventName = keyof typeof EVENTS;

// The allowed transitions. All others must throw.
const EXPECTED: Record<TaskState, Partial<Record<EventName, TaskState>>> = {
  queued: {
    take: "processing",
    "put back": "queued",
    cancel: "cancelled",
    expire: "timeout",
    succeed: "done",
    fail: "error",
  },
  processing: {
    take: "processing",
    "put back": "queued",
    cancel: "cancelling",
    expire: "cancelling",
    succeed: "done",
    fail: "error",
  },
  held: { resume: "queued", cancel: "cancelled", expire: "timeout" },
  cancelling: { cancel: "cancelling", expire: "cancelling", succeed: "done", fail: "error", heed: "cancelled" },
  done: {},
  error: {},
  cancelled: {},
  timeout: {},
};

describe("task states", () => {
  for (const state of Object.keys(EXPECTED) as TaskState[]) {
    for (const event of Object.keys(EVENTS) as EventName[]) {
      const expected = EXPECTED[state][event];
      it(`${state}, ${event} -> ${expected ?? "refused"}`, () => {
        const before = inState(state);
        if (expected === undefined) expect(() => EVENTS[event](before)).to.throw(`task 7 is ${state}`);
        else expect(EVENTS[event](before).state).to.equal(expected);
      });
    }
  }

  it("restored from a backup -> held, unless ended", () => {
    for (const state of ["queued", "processing", "cancelling"] as const) {
      expect(restored(inState(state))).to.deep.equal({ ...inState(state), state: "held" });
    }
    expect(restored(inState("done"))).to.deep.equal(inState("done"));
    expect(resume(restored(inState("cancelling")))).to.include({ state: "queued", stop: null });
  });

  it("ended -> has an end and a result, and no job any more", () => {
    const ended = inState("done");
    expect(ended).to.include({ endedAtMs: 4_000, result: "ok", job: null });
    expect(hasEnded(ended)).to.equal(true);
    expect(hasEnded(inState("cancelling"))).to.equal(false);
  });

  it("failed, with a job that the page has a form for -> keeps the job, so that a person can retry it", () => {
    const other = { ...inState("processing"), job: { type: "delete_vm", vmCid: "v" } } as const;
    expect(inState("error").job).to.deep.equal(QUEUED.job);
    expect(end(other, { event: "fail", result: "no" }, 4_000).job).to.equal(null);
  });

  it("taken again after a crash -> one more attempt, with the first start time", () => {
    const again = take(inState("processing"), 9_000, { again: false });
    expect(again).to.include({ attempts: 2, startedAtMs: 2_000 });
  });

  it("taken again after a wait for a lock -> the same attempt", () => {
    expect(take(putBack(inState("processing")), 9_000, { again: true })).to.include({
      attempts: 1,
      startedAtMs: 2_000,
    });
  });

  it("stopped twice -> the first reason stays", () => {
    const stopped = end(requestStop(inState("cancelling"), EXPIRE, 5_000), { event: "heed" }, 6_000);
    expect(stopped).to.include({ state: "cancelled", result: CANCEL.why });
  });

  it("expired while it ran, and ended early -> timeout", () => {
    const stopped = end(requestStop(inState("processing"), EXPIRE, 5_000), { event: "heed" }, 6_000);
    expect(stopped).to.include({ state: "timeout", result: EXPIRE.why });
  });

  it("a result beyond the limit -> truncated", () => {
    const long = end(inState("processing"), { event: "fail", result: "x".repeat(10_000) }, 5_000);
    expect(long.result).to.have.lengthOf(MAX_RESULT_LENGTH + 3);
  });
});

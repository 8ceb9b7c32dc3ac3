import { troubleIn } from "@diskmesh/domain";
import { expect } from "chai";
import type { CpiCall } from "../store/cpi-call.js";
import type { Task, TaskFailure } from "../store/task.js";
import type { TaskEvent } from "../tasks/task-event.js";
import { known as knownOf } from "../testing/known.js";
import type { Known, KnownVm, Subject } from "./cause.js";
import { causesOf, openSteps, taskCauses } from "./explain.js";

const task = (taskId: number, fields: Partial<Task> = {}): Task =>
  ({
    taskId,
    state: "processing",
    queue: "normal",
    description: `job ${taskId}`,
    createdAtMs: 100,
    startedAtMs: 200,
    endedAtMs: null,
    result: "",
    ...fields,
  }) as Task;
const event = (state: TaskEvent["state"], index: number, stage: string, timeMs = 300): TaskEvent => ({
  timeMs,
  stage,
  task: `t${index}`,
  index,
  state,
  message: "",
  tags: [],
  total: 0,
});
const failed = (failure?: TaskFailure): Task =>
  task(2, { state: "error", endedAtMs: 400, result: "said so", ...(failure && { failure }) });
const lock = (waitingTaskIds: readonly number[] = []): Known["locks"][number] => ({
  type: "deployment",
  resource: "demo",
  taskId: 1,
  what: "",
  sinceMs: 800,
  deadlineAtMs: 900,
  waitingTaskIds,
});
const known = (tasks: readonly Task[], fields: Partial<Known> = {}): Known =>
  knownOf({ taskOf: (taskId) => tasks.find((each) => each.taskId === taskId), ...fields });
const TASK: Subject = { kind: "TASK", name: "2" };
const LOCK: Subject = { kind: "LOCK", name: "deployment:demo" };

describe("explain: causes at the director", () => {
  const ROWS: readonly [cause: string, subject: Subject, known: Known, reasons: readonly string[], says: RegExp][] = [
    ["a task that has ended", TASK, known([task(2, { state: "done", endedAtMs: 400 })]), [], /^$/],
    ["no such task", TASK, known([]), [], /^$/],
    ["a restored task", TASK, known([task(2, { state: "held" })]), ["HELD"], /its progress since then is not known/],
    [
      "a task that waits for a lock",
      TASK,
      known([task(2, { state: "queued" })], { locks: [lock([2])] }),
      ["WAITS_FOR_LOCK"],
      /task 2 waits for the lock of deployment demo, which task 1 holds$/,
    ],
    [
      "all workers are busy",
      TASK,
      known([task(2, { state: "queued" })]),
      ["WAITS_FOR_WORKER"],
      /4 tasks of queue normal/,
    ],
    [
      "a task at work",
      TASK,
      known([task(2)], { openSteps: () => [event("started", 1, "Creating vm")] }),
      ["AT_WORK"],
      /is at: Creating vm \(t1\)/,
    ],
    [
      "a task for which there was no room",
      TASK,
      known([failed({ reason: "NO_DISK_SPACE", about: { pool: "fast" }, code: 8 })]),
      ["NO_SPACE"],
      /^said so$/,
    ],
    [
      "a task whose CPI cannot be called",
      TASK,
      known([failed({ reason: "CPI_UNUSABLE", about: {}, code: 14 })]),
      ["CPI_UNUSABLE"],
      /^said so$/,
    ],
    ["a task that failed otherwise", TASK, known([failed()]), ["FAILED"], /^said so$/],
    ["a task that begins", TASK, known([task(2)]), ["AT_WORK"], /has started no step/],
    [
      "a task that is cancelled",
      TASK,
      known([task(2, { state: "cancelling" })]),
      ["IS_TO_STOP"],
      /ends at its next safe point/,
    ],
    [
      "a lock that is held",
      LOCK,
      known([task(1)], { locks: [lock([2, 3])] }),
      ["LOCK_HELD"],
      /held by task 1 \(job 1\).*2 tasks wait for it/,
    ],
    [
      "a lock that a call holds which is no task's",
      LOCK,
      known([], { locks: [{ ...lock(), taskId: 0, what: "call of m for ann" }] }),
      ["LOCK_HELD"],
      /held by call of m for ann until that call is answered$/,
    ],
    ["a free lock", LOCK, known([]), [], /^$/],
  ];
  for (const [cause, subject, facts, reasons, says] of ROWS)
    it(`${cause} -> ${reasons.join(", ") || "no cause"}`, () => {
      const found = causesOf(subject, facts);
      expect(found.map(({ reason }) => reason)).to.deep.equal(reasons);
      expect(found.map(({ message }) => message).join()).to.match(says);
    });

  it("a running task that waits for a CPI -> the call and its start", () => {
    const call = {
      dispatcher: "d:1",
      method: "attachDisk",
      things: ["diskCid cid-1"],
      sinceMs: 400,
    } as unknown as CpiCall;
    for (const [cpi, whose] of [
      ["aws", "CPI aws"],
      ["", "the default CPI"],
    ] as const) {
      const [waits, atWork] = causesOf(TASK, known([task(2)], { callsOf: () => [{ ...call, cpi }] }));
      expect(atWork?.reason).to.equal("AT_WORK");
      expect(waits).to.deep.equal({
        subject: TASK,
        reason: "CPI_AT_WORK",
        message: `${whose} has not answered attachDisk for diskCid cid-1 (run by dispatcher d:1)`,
        sinceMs: 400,
        isRoutine: true,
        cures: [["cancel the task, which ends this call", "diskmesh cancel 2"]],
        becauseOf: [{ kind: "SERVICE", name: "director" }],
      });
    }
  });

  it("a running task whose call is tried again -> the error, and the dispatcher that this director lacks", () => {
    const retried = {
      taskId: 2,
      method: "createDisk",
      why: "no dispatcher is usable: d:1: Deadline exceeded",
      sinceMs: 400,
    };
    const need = { reason: "DISPATCHER_AWAY", message: "lacks its dispatcher", sinceMs: 300 } as const;
    const facts = known([task(2)], { retriesOf: () => [retried], dispatcherNeed: () => need });
    const [waits] = causesOf(TASK, facts);
    expect(waits?.message).to.equal(
      "createDisk of task 2 is tried again: no dispatcher is usable: d:1: Deadline exceeded",
    );
    expect(waits).to.include({ isRoutine: true });
    expect(waits?.cures?.[0]?.[0]).to.match(/^repair what the message names/);
    expect(causesOf(TASK, { ...facts, nowMs: 400 + 20_001 })[0]).to.include({ isRoutine: false });
    expect(waits?.becauseOf?.flatMap((subject) => causesOf(subject, facts))).to.deep.equal([
      { subject: { kind: "SERVICE", name: "director" }, ...need },
    ]);
    expect(causesOf({ kind: "SERVICE", name: "director" }, known([]))).to.deep.equal([]);
  });

  it("a task that works on a VM -> leads to the VM and to its hosts, whose agents may be at fault", () => {
    const locks = [{ ...lock([]), type: "instance", resource: "i1", taskId: 2 }] as const;
    const vmOf = () => ({ hostIds: ["h1"] }) as unknown as KnownVm;
    expect(causesOf(TASK, known([task(2)], { locks, vmOf }))[0]?.becauseOf).to.deep.equal([
      { kind: "VM", name: "i1" },
      { kind: "HOST", name: "h1" },
    ]);
  });

  it("a task and the awaited lock -> lead to the task that holds the lock", () => {
    const facts = known([task(1), task(2, { state: "queued" })], { locks: [lock([2])] });
    const [waits] = causesOf(TASK, facts);
    expect(waits?.becauseOf).to.deep.equal([LOCK]);
    expect(causesOf(LOCK, facts)[0]).to.deep.include({
      sinceMs: 800,
      nextTryAtMs: 900,
      becauseOf: [{ kind: "TASK", name: "1" }],
    });
  });

  it("a task that failed for lack of space -> leads to its pool, if known", () => {
    for (const [about, becauseOf] of [
      [{ pool: "fast" }, [{ kind: "POOL", name: "fast" }]],
      [{}, []],
    ] as const)
      expect(causesOf(TASK, known([failed({ reason: "NO_DISK_SPACE", about, code: 8 })]))[0]).to.deep.include({
        sinceMs: 400,
        becauseOf,
      });
  });

  it("steps that have begun and not ended are open", () => {
    const events = [
      event("started", 1, "a"),
      event("started", 2, "a"),
      event("finished", 1, "a"),
      event("started", 1, "b"),
      event("failed", 1, "b"),
    ];
    expect(openSteps(events).map(({ stage, index }) => `${stage}${index}`)).to.deep.equal(["a2"]);
  });
});

describe("explain: which causes of a task are its trouble", () => {
  const NOW_MS = 10_000_000;
  const troubleOf = (about: Partial<Task>, fields: Partial<Known> = {}) =>
    troubleIn(taskCauses(task(2, about), knownOf({ nowMs: NOW_MS, ...fields })));
  const failedBy = (reason: string, requestId?: string, ageMs = 1): Partial<Task> => {
    const failure = { reason, about: {}, code: 9 };
    return { state: "error", endedAtMs: NOW_MS - ageMs, failure, ...(requestId !== undefined && { requestId }) };
  };

  it("a failure of the mesh, for ten minutes; a caller's mistake only if the director itself made it", () => {
    expect(troubleOf(failedBy("UNAVAILABLE", "r"))?.reason).to.equal("FAILED");
    expect(troubleOf(failedBy("UNAVAILABLE", "r", 600_000))).to.equal(undefined);
    for (const reason of ["INVALID_ARGUMENT", "NOT_FOUND", "DISK_IN_USE", "DISK_DIFFERS", "PERMISSION_DENIED"])
      expect(troubleOf(failedBy(reason, "r")), reason).to.equal(undefined);
    expect(troubleOf(failedBy("INVALID_STATE", "r"))).to.equal(undefined);
    expect(troubleOf(failedBy("INVALID_STATE"))?.reason).to.equal("FAILED");
  });

  it("a wait for a lock, since the present owner has it, and a restored task", () => {
    expect(troubleOf({}, { locks: [lock([2])] })).to.include({ reason: "WAITS_FOR_LOCK", sinceMs: 800 });
    expect(troubleOf({ state: "held" })?.reason).to.equal("HELD");
  });

  it("a call or a wait for a worker that takes longer than work should; never work itself", () => {
    const call = { dispatcher: "d:1", method: "createVm", things: [] as string[] };
    const callSince = (sinceMs: number): Partial<Known> => ({ callsOf: () => [{ ...call, sinceMs } as never] });
    for (const state of ["processing", "cancelling"] as const) {
      expect(troubleOf({ state }, callSince(NOW_MS - 701))).to.include({
        reason: "CPI_AT_WORK",
        sinceMs: NOW_MS - 701,
      });
      expect(troubleOf({ state }, callSince(NOW_MS - 700))).to.equal(undefined);
      expect(troubleOf({ state })).to.equal(undefined);
    }
    expect(troubleOf({ state: "queued", createdAtMs: NOW_MS - 701 })?.reason).to.equal("WAITS_FOR_WORKER");
    expect(troubleOf({ state: "queued", createdAtMs: NOW_MS - 700 })).to.equal(undefined);
  });
});

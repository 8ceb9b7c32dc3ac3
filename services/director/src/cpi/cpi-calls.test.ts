import { type CreateDiskRequest, CreateDiskResponse } from "@diskmesh/api/cpi";
import { CpiUnusableError } from "@diskmesh/cpi";
import {
  AbortedError,
  CancelledError,
  InvalidArgumentError,
  InvalidStateError,
  NotFoundError,
  OutdatedError,
  PermissionDeniedError,
  ResourceExhaustedError,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import { ManualClock } from "@diskmesh/service";
import { expect } from "chai";
import { CpiCalls, type CpiClient } from "./cpi-calls.js";
import { CpiCallError } from "./cpi-error.js";
import { CpiLogs } from "./cpi-logs.js";

const unknown = new UnavailableError("lost", { outcome: "unknown" });

/** Each answer is thrown, or a disk's cid. */
function callsOf(answers: (Error | string)[]): { calls: CpiCalls; clock: ManualClock; requests: CreateDiskRequest[] } {
  const clock = new ManualClock();
  const requests: CreateDiskRequest[] = [];
  // What the network answers is this test's input; the real client is used by all tests of the process.
  const client = {
    createDisk: async (request: CreateDiskRequest) => {
      requests.push(request);
      const answer = answers.length > 1 ? answers.shift() : answers[0];
      if (answer instanceof Error) throw answer;
      return CreateDiskResponse.fromPartial({ diskCid: answer ?? "" });
    },
    endCalls: async () => ({}),
  } as unknown as CpiClient;
  const calls = new CpiCalls({
    client,
    directorId: "d",
    directorGeneration: () => 7,
    cpiConfig: { version: async () => "", tell: async () => {} },
    logs: new CpiLogs({
      client: { watchCpiLog: async function* () {} },
      directorId: "d",
      clock,
      random: () => 0.5,
      log: { debug: () => {} },
    }),
    events: { around: (_method, _taskId, _request, call) => call() },
    preferredApiVersion: 0,
    checkMayAct: () => {},
    callTimeoutMs: 1_000,
    retryMs: 10_000,
    endTimeoutMs: 5_000,
    clock,
    random: () => 0.5,
  });
  return { calls, clock, requests };
}

async function outcomeOf(
  answers: (Error | string)[],
  stop = new AbortController(),
): Promise<{ result: unknown; requests: CreateDiskRequest[] }> {
  const { calls, clock, requests } = callsOf(answers);
  const request = { sizeMib: 1, cloudProperties: {}, vmCid: "", az: "z1", token: "t" };
  const signals = {
    stopping: new AbortController().signal,
    stopped: stop.signal,
    requestId: "task-1",
    taskId: 1,
    output: () => {},
  };
  let settled = false;
  const result = calls.call("createDisk", { cpi: "east", az: "z1", azCpi: "east" }, request, signals).then(
    (response) => response.diskCid,
    (error: unknown) => error,
  );
  void result.finally(() => {
    settled = true;
  });
  for (let turns = 0; !settled && turns < 200; turns++) await clock.advance(100);
  return { result: await result, requests };
}

describe("CPI calls", () => {
  const FINAL: [string, (Error | string)[], { attempts: number; outcome: string; refused: boolean }][] = [
    ["refused", [new InvalidStateError("no")], { attempts: 1, outcome: "not_done", refused: true }],
    ["not found", [new NotFoundError("no")], { attempts: 1, outcome: "not_done", refused: true }],
    ["malformed", [new InvalidArgumentError("no")], { attempts: 1, outcome: "not_done", refused: true }],
    ["not asked", [new CpiUnusableError("none")], { attempts: 1, outcome: "not_done", refused: false }],
    ["no space", [new ResourceExhaustedError("full")], { attempts: 1, outcome: "not_done", refused: true }],
    [
      "outdated: another director leads",
      [new OutdatedError("old")],
      { attempts: 1, outcome: "not_done", refused: false },
    ],
    ["not allowed", [new PermissionDeniedError("no")], { attempts: 1, outcome: "not_done", refused: false }],
    ["cancelled", [new CancelledError("gone")], { attempts: 1, outcome: "unknown", refused: false }],
    ["a bug", [new TypeError("x")], { attempts: 1, outcome: "unknown", refused: false }],
    ["lost, then refused", [unknown, new InvalidStateError("no")], { attempts: 2, outcome: "unknown", refused: true }],
  ];
  for (const [cause, answers, effect] of FINAL) {
    it(`${cause} -> ${JSON.stringify(effect)}`, async () => {
      const { result, requests } = await outcomeOf(answers);
      expect(result).to.be.instanceOf(CpiCallError).and.include({ outcome: effect.outcome, refused: effect.refused });
      expect(requests).to.have.lengthOf(effect.attempts);
    });
  }

  const PASSING = [
    new UnavailableError("away"),
    unknown,
    new TimeoutError("slow"),
    new AbortedError("again"),
    new ResourceExhaustedError("too many calls", { retryAfterMs: 500 }),
  ];
  for (const error of PASSING) {
    it(`${error.message}, then well -> repeated with the same token`, async () => {
      const { result, requests } = await outcomeOf([error, "disk-t"]);
      expect(result).to.equal("disk-t");
      expect(requests.map((request) => request.token)).to.deep.equal(["t", "t"]);
      expect(requests[0]?.context).to.deep.equal({
        cpi: "east",
        directorId: "d",
        directorGeneration: 7,
        requestId: "task-1",
        stemcellApiVersion: 0,
        cpiConfigVersion: "",
        az: "z1",
        azCpi: "east",
        unknownId: false,
        preferredApiVersion: 0,
        logId: "d-task-1",
      });
    });
  }

  it("away for good -> gives up after the time for it", async () => {
    const { result, requests } = await outcomeOf([new UnavailableError("away")]);
    expect(result).to.be.instanceOf(CpiCallError).and.include({ outcome: "not_done", refused: false });
    expect(requests.length).to.be.within(5, 20);
  });

  it("the task was stopped -> not repeated", async () => {
    const stop = new AbortController();
    stop.abort();
    expect((await outcomeOf([new UnavailableError("away")], stop)).requests).to.have.lengthOf(1);
  });
});

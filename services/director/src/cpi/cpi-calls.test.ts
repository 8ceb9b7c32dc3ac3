import { type CpiServiceCreateDiskRequest, CpiServiceCreateDiskResponse } from "@diskmesh/api/cpi";
import { CpiUnusableError, InvalidCpiResponseError, NotSupportedError } from "@diskmesh/cpi";
import {
  AbortedError,
  CancelledError,
  InvalidArgumentError,
  InvalidStateError,
  NotFoundError,
  NotImplementedError,
  OutdatedError,
  PermissionDeniedError,
  ResourceExhaustedError,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import { ManualClock, rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { CpiCalls } from "./cpi-calls.js";
import { CpiCallError } from "./cpi-error.js";
import { CpiLogs } from "./cpi-logs.js";
import type { Dispatcher } from "./dispatchers.js";

const unknown = new UnavailableError("lost", { outcome: "unknown" });

/**
 * `answers` are the results of the calls in order: an error is thrown, a text is the CID of the created disk. `ends`
 * are errors that the dispatchers throw in answer to requests to end a call.
 */
function callsOf(answers: (Error | string)[], { addresses = ["a"], ends = [] as Error[], changes = true } = {}) {
  const clock = new ManualClock();
  const requests: CpiServiceCreateDiskRequest[] = [];
  const made: string[] = [];
  // Fake dispatchers, because the network's answers are the input of this test. Tests of the whole process use the real
  // client.
  const dispatchers = addresses.map((address) => ({
    address,
    client: {
      createDisk: async (request: CpiServiceCreateDiskRequest) => {
        requests.push(request);
        made.push(`call at ${address}`);
        const answer = answers.length > 1 ? answers.shift() : answers[0];
        if (answer instanceof Error) throw answer;
        return CpiServiceCreateDiskResponse.fromPartial({ diskCid: answer ?? "" });
      },
      endCalls: async ({ callId }: { callId: string }) => {
        const error = ends.length > 1 ? ends.shift() : ends[0];
        made.push(`end ${callId} at ${address}${error === undefined ? "" : " in vain"}`);
        if (error !== undefined) throw error;
      },
    },
  })) as unknown as Dispatcher[];
  let ids = 0;
  const calls = new CpiCalls({
    dispatchers: {
      choose: (failedAt) => dispatchers.find((one) => one !== failedAt) ?? (dispatchers[0] as Dispatcher),
    },
    records: {
      retried: new Set(),
      begin: async ({ address }, { callId }) => {
        made.push(`${callId} recorded at ${address}`);
        return changes;
      },
      end: (callId) => void made.push(`${callId} ended`),
      abandon: (callId) => void made.push(`${callId} abandoned`),
    },
    directorId: "d",
    directorGeneration: () => 7,
    cpiConfig: { version: async () => "", send: async () => {} },
    logs: new CpiLogs({
      clients: [],
      directorId: "d",
      clock,
      log: { debug: () => {} },
    }),
    events: {
      around: (_method, _taskId, _request, call) => call(),
      note: () => ({ end: () => {} }),
    },
    preferredApiVersion: 0,
    checkMayAct: () => {},
    callTimeoutMs: 1_000,
    retryTimeoutMs: 10_000,
    endTimeoutMs: 5_000,
    newId: () => `call-${++ids}`,
    clock,
    random: () => 0.5,
  });
  return { calls, clock, requests, made };
}

async function outcomeOf(
  answers: (Error | string)[],
  {
    stop = new AbortController(),
    ...more
  }: { stop?: AbortController; addresses?: string[]; ends?: Error[]; changes?: boolean } = {},
): Promise<{ result: unknown; requests: CpiServiceCreateDiskRequest[]; made: string[]; debug: string[] }> {
  const { calls, clock, requests, made } = callsOf(answers, more);
  const request = { sizeMib: 1, cloudProperties: { key: "secret" }, vmCid: "vm-1", az: "z1", token: "t" };
  const debug: string[] = [];
  const signals = {
    stopping: new AbortController().signal,
    stopped: stop.signal,
    requestId: "task-1",
    taskId: 1,
    output: (type: string, line: string) => type === "debug" && debug.push(line),
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
  return { result: await result, requests, made, debug };
}

describe("methods that a CPI may lack", () => {
  it("missing method -> noted once, and called again only after ten minutes", async () => {
    const { calls, clock, requests } = callsOf([new NotImplementedError("no such method")]);
    const notes: string[] = [];
    const { signal } = new AbortController();
    const output = () => {};
    const note = (_stage: string, task: string) => notes.push(task);
    const signals = { stopping: signal, stopped: signal, requestId: "task-1", taskId: 1, output, note };
    const request = { sizeMib: 1, cloudProperties: {}, vmCid: "", az: "", token: "" };
    const call = (cpi = "east") => calls.callIfKnown("createDisk", { cpi }, request, signals);
    for (let times = 0; times < 3; times++) await call();
    expect([requests.length, notes]).to.deep.equal([1, ["CPI createDisk failed: no such method"]]);
    await call("west");
    expect([requests.length, notes.length]).to.deep.equal([2, 2]);
    await clock.advance(600_000);
    await call();
    expect([requests.length, notes.length]).to.deep.equal([3, 2]);
  });

  it("missing method, for calls that run at once -> noted once; a method that refuses -> noted once, called again", async () => {
    for (const [error, calledAgain] of [
      [new NotImplementedError("no such method"), false],
      [new NotSupportedError("not for this disk"), true],
    ] as const) {
      const { calls, requests } = callsOf([error]);
      const notes: string[] = [];
      const { signal } = new AbortController();
      const note = (_stage: string, task: string) => notes.push(task);
      const signals = { stopping: signal, stopped: signal, requestId: "task-1", taskId: 1, output: () => {}, note };
      const request = { sizeMib: 1, cloudProperties: {}, vmCid: "", az: "", token: "" };
      const call = () => calls.callIfKnown("createDisk", { cpi: "east" }, request, signals);
      expect(await Promise.all([call(), call(), call()])).to.deep.equal([undefined, undefined, undefined]);
      await call();
      expect([requests.length, notes.length]).to.deep.equal([calledAgain ? 4 : 3, 1]);
    }
  });

  it("other failure -> thrown, and the method is called again", async () => {
    const { calls, requests } = callsOf([new InvalidStateError("no")]);
    const { signal } = new AbortController();
    const rest = { requestId: "task-1", taskId: 1, output: () => {}, note: () => {} };
    const request = { sizeMib: 1, cloudProperties: {}, vmCid: "", az: "", token: "" };
    for (const count of [1, 2]) {
      const call = calls.callIfKnown("createDisk", { cpi: "" }, request, {
        stopping: signal,
        stopped: signal,
        ...rest,
      });
      await rejection(call, CpiCallError, "no");
      expect(requests).to.have.length(count);
    }
  });
});

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
    it(`${error.message}, then a success -> repeated with the same token`, async () => {
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
        askOthers: false,
        exceptCpis: [],
        preferredApiVersion: 0,
        logId: "d-task-1",
        callId: "call-1",
      });
    });
  }

  it("a dispatcher that stays unreachable -> the call fails after the retry time", async () => {
    const { result, requests } = await outcomeOf([new UnavailableError("away")]);
    expect(result).to.be.instanceOf(CpiCallError).and.include({ outcome: "not_done", refused: false });
    expect(requests.length).to.be.within(5, 20);
  });

  it("an invalid answer that lasts -> the call is made once more; one that may pass -> for the retry time", async () => {
    const lasting = new InvalidCpiResponseError("garbage", { about: { ok_to_retry: "false" } });
    const { result, requests } = await outcomeOf([lasting]);
    expect(result).to.be.instanceOf(CpiCallError).and.include({ outcome: "unknown", refused: false });
    expect(requests).to.have.lengthOf(2);
    expect((await outcomeOf([lasting, "disk"])).result).to.equal("disk");
    expect((await outcomeOf([new InvalidCpiResponseError("killed")])).requests.length).to.be.within(5, 20);
  });

  it("debug output -> method, CPI, CIDs, request id and outcome of each call, and nothing else of the request", async () => {
    const { requests, debug } = await outcomeOf([unknown, "disk-9"]);
    expect(requests).to.have.lengthOf(2);
    expect(debug).to.deep.equal([
      "create_disk with CPI east, VM vm-1, request task-1-call-1, 0 ms: outcome unknown: lost",
      "createDisk is tried again: lost",
      "create_disk with CPI east, VM vm-1, request task-1-call-2, 0 ms: done, disk disk-9",
    ]);
    const refused = await outcomeOf([new InvalidStateError("no")]);
    expect(refused.debug).to.deep.equal([
      "create_disk with CPI east, VM vm-1, request task-1-call-1, 0 ms: not done: no",
    ]);
  });

  it("a stopped task -> the call is not repeated", async () => {
    const stop = new AbortController();
    stop.abort();
    expect((await outcomeOf([new UnavailableError("away")], { stop })).requests).to.have.lengthOf(1);
  });

  const TWO: [string, (Error | string)[], Error[], string[]][] = [
    ["an answer", ["disk"], [], ["call-1 recorded at a", "call at a", "call-1 ended"]],
    [
      "unreachable -> the other dispatcher, at once",
      [new UnavailableError("away"), "disk"],
      [],
      ["call-1 recorded at a", "call at a", "call-1 ended", "call-2 recorded at b", "call at b", "call-2 ended"],
    ],
    [
      "lost -> the other dispatcher, once the first confirms the end",
      [unknown, "disk"],
      [new UnavailableError("starting"), new UnavailableError("starting"), undefined as unknown as Error],
      [
        ...[
          "call-1 recorded at a",
          "call at a",
          "end call-1 at a in vain",
          "end call-1 at a in vain",
          "end call-1 at a",
        ],
        ...["call-1 ended", "call-2 recorded at b", "call at b", "call-2 ended"],
      ],
    ],
  ];
  for (const [cause, answers, ends, expected] of TWO)
    it(`with two dispatchers: ${cause}`, async () => {
      const { result, made } = await outcomeOf([...answers], { addresses: ["a", "b"], ends: [...ends] });
      expect(result).to.equal("disk");
      expect(made).to.deep.equal(expected);
    });

  it("a read-only call lost with its dispatcher -> repeated at once at the other dispatcher", async () => {
    const options = { addresses: ["a", "b"], ends: [new UnavailableError("gone")], changes: false };
    const { result, made } = await outcomeOf([unknown, "disk"], options);
    expect(result).to.equal("disk");
    expect(made.filter((one) => one.startsWith("call at"))).to.deep.equal(["call at a", "call at b"]);
    expect(made.filter((one) => one.startsWith("end "))).to.deep.equal([]);
  });

  it("a changing call lost with its dispatcher -> not repeated at the other, and its outcome is unknown", async () => {
    const options = { addresses: ["a", "b"], ends: [new UnavailableError("gone")] };
    const { result, made } = await outcomeOf([unknown, "disk"], options);
    expect(result).to.be.instanceOf(CpiCallError).and.include({ outcome: "unknown", refused: false });
    expect(String(result)).to.include("dispatcher a does not answer and may still run the call");
    expect(made.filter((one) => !one.startsWith("end "))).to.deep.equal([
      "call-1 recorded at a",
      "call at a",
      "call-1 abandoned",
    ]);
  });
});

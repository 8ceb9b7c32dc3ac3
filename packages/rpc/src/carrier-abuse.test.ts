import type { CarryResponse } from "@diskmesh/api/rpc";
import { type CarriedCall, CarrierServiceDefinition, CarryRequest } from "@diskmesh/api/rpc";
import { InvalidArgumentError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { status } from "@grpc/grpc-js";
import { expect } from "chai";
import type { CallContext } from "./call-context.js";
import { abortReason, Bench, collect, eventually, type Note, rawClient } from "./testing/note-bench.js";

const CARRY = "/diskmesh.rpc.v1.CarrierService/Carry";
const GET = "/test.v1.NoteService/Get";
const NOTE: Note = { text: "a", count: 7 };
const NO_MESSAGE = Buffer.from([0xff, 0xff, 0xff]);

/** A stream that carries calls, of callers that say what no client of ours does. */
describe("a stream of carried calls that its caller abuses", () => {
  const bench = new Bench();
  let begun: Note[] = [];
  before(() => bench.makeCertificates());
  beforeEach(() => {
    begun = [];
  });
  afterEach(async () => {
    // Whatever was said, another caller is served, and nothing was a bug.
    expect(await bench.client({ tls: bench.files("director") }).get(NOTE)).to.deep.equal(NOTE);
    expect(bench.failures.filter(({ unexpected }) => unexpected)).to.deep.equal([]);
    await bench.closeAll();
  });
  after(() => bench.remove());

  const get = async (note: Note) => {
    begun.push(note);
    return note;
  };
  const requestOf = (callNumber: number, call: Partial<CarriedCall> = {}) => ({
    callNumber,
    what: { $case: "call" as const, value: { path: GET, ...call } },
  });
  const encoded = (callNumber: number) =>
    Buffer.from(CarryRequest.encode(CarryRequest.fromPartial(requestOf(callNumber))).finish());
  const answers = (...requests: object[]): Promise<CarryResponse[]> =>
    collect(
      bench.clientOf(CarrierServiceDefinition).carry(
        (async function* () {
          yield* requests;
        })(),
      ),
    );
  const codeOf = ({ outcome }: CarryResponse): number =>
    outcome?.$case === "failure" ? outcome.value.code : status.OK;

  it("a message that is none -> the stream ends, and what came behind begins nothing", async () => {
    await bench.serve({ get });
    const raw = rawClient(bench, "operator");
    // The first is answered by then: a stream on which nothing was said yet ends at once.
    const { code } = await raw.stream(CARRY, [encoded(1), NO_MESSAGE, encoded(2), encoded(3)]);
    expect(code).to.equal(status.INVALID_ARGUMENT);
    expect(begun).to.have.length(1);
    raw.close();
  });

  it("a number twice -> the stream ends, and its calls are told so", async () => {
    const reasons: unknown[] = [];
    await bench.serve({
      get: async (note: Note, call: CallContext) => {
        if (note.count !== NOTE.count) reasons.push(await abortReason(call));
        return note;
      },
    });
    await rejection(answers(requestOf(1), requestOf(1)), InvalidArgumentError, "whose number another call has");
    await eventually(async () => expect(reasons).to.have.length(1));
  });

  it("metadata that cannot be headers, or is longer than any -> that call fails, others go on", async () => {
    await bench.serve({ get });
    const many = Object.fromEntries(Array.from({ length: 3_000 }, (_, index) => [`x-${index}`, "v"]));
    const strange: Record<string, string>[] = [
      { "x\n": "v" },
      { "x-control": "a\u0000b" },
      { "x-bin": "no bytes" },
      { "x-long": "v".repeat(20_000) },
      many,
    ];
    const all = await answers(...strange.map((metadata, index) => requestOf(index + 1, { metadata })), requestOf(99));
    expect(all.map(({ callNumber }) => callNumber)).to.have.members([1, 2, 3, 4, 5, 99]);
    for (const answer of all)
      expect(codeOf(answer), `${answer.callNumber}`).to.equal(
        answer.callNumber === 99 ? status.OK : status.INVALID_ARGUMENT,
      );
    expect(begun).to.have.length(1);
  });

  it("headers of HTTP/2 itself, and those that gRPC reads, mean nothing", async () => {
    await bench.serve({ get });
    const metadata = { ":path": "/no", "grpc-timeout": "1n", ["__proto__"]: "v", host: "elsewhere" };
    expect((await answers(requestOf(1, { metadata }))).map(codeOf)).to.deep.equal([status.OK]);
  });

  it("paths of no method, of streams, and of the carrier itself -> there is no such method to carry", async () => {
    await bench.serve({ get });
    const paths = ["", "x", "/test.v1.NoteService/List", "/test.v1.NoteService/Talk", CARRY, `/${"x".repeat(100_000)}`];
    const all = await answers(...paths.map((path, index) => requestOf(index + 1, { path })));
    expect(all.map(codeOf)).to.deep.equal(paths.map(() => status.UNIMPLEMENTED));
  });

  it("times that are too long, or 0 -> the server's own", async () => {
    const deadlines: number[] = [];
    const limits = { maxDeadlineMs: 60_000, defaultDeadlineMs: 30_000 };
    await bench.serve(
      {
        get: async (note, { deadlineAtMs }) => {
          deadlines.push(deadlineAtMs - Date.now());
          return note;
        },
      },
      { limits },
    );
    // -1 is written as the highest.
    await answers(requestOf(1, { timeoutMs: 2 ** 32 - 1 }), requestOf(2, { timeoutMs: 0 }));
    expect(deadlines[0]).to.be.within(1, 60_000).and.above(30_000);
    expect(deadlines[1]).to.be.within(1, 30_000);
  });

  it("calls that are cancelled as they begin, by thousands -> each is answered once, and nothing is left", async () => {
    let underWay = 0;
    await bench.serve(
      {
        get: async (note: Note, call: CallContext) => {
          if (note.count === NOTE.count) return note;
          underWay += 1;
          await abortReason(call);
          underWay -= 1;
          return note;
        },
      },
      { limits: { maxCallsPerPeer: 100 } },
    );
    const messages = Array.from({ length: 2_000 }, (_, index) => [
      requestOf(index + 1),
      { callNumber: index + 1, what: { $case: "cancel" as const, value: true } },
      { callNumber: index + 100_000, what: { $case: "cancel" as const, value: true } },
    ]);
    const all = await answers(...messages.flat());
    expect(all).to.have.length(2_000);
    expect(new Set(all.map(({ callNumber }) => callNumber))).to.have.property("size", 2_000);
    expect(new Set(all.map(codeOf))).to.include(status.CANCELLED);
    await eventually(async () => expect(underWay).to.equal(0));
  });

  it("more calls than one caller may have, on several streams -> refused, as by themselves", async () => {
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await bench.serve(
      {
        get: async (note) => {
          if (note.count !== NOTE.count) await released;
          return note;
        },
      },
      { limits: { maxCallsPerPeer: 10 } },
    );
    const streams = [1, 2].map(() => answers(...Array.from({ length: 10 }, (_, index) => requestOf(index + 1))));
    await eventually(async () => expect(bench.failures).to.have.length(10));
    expect(new Set(bench.failures.map((failure) => failure.status))).to.deep.equal(new Set(["RESOURCE_EXHAUSTED"]));
    release();
    const codes = (await Promise.all(streams)).flat().map(codeOf);
    expect(codes.filter((code) => code === status.OK)).to.have.length(10);
    expect(codes.filter((code) => code === status.RESOURCE_EXHAUSTED)).to.have.length(10);
  });

  it("answers that nobody reads -> no further call is taken", async () => {
    const text = "x".repeat(100_000);
    let taken = 0;
    await bench.serve({
      get: async (note) => {
        if (note.count === NOTE.count) return note;
        taken += 1;
        return { ...note, text };
      },
    });
    const sent = 1_000;
    const reading = bench.clientOf(CarrierServiceDefinition).carry(
      (async function* () {
        for (let callNumber = 1; callNumber <= sent; callNumber++) yield requestOf(callNumber);
      })(),
    );
    const iterator = reading[Symbol.asyncIterator]();
    await iterator.next();
    let before = -1;
    await eventually(async () => {
      const last = before;
      before = taken;
      expect(taken).to.equal(last);
    });
    expect(taken).to.be.below(sent / 2);
    let read = 1;
    while (!(await iterator.next()).done) read += 1;
    expect(read).to.equal(sent);
  });
});

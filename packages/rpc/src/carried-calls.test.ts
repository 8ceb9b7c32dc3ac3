import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { CarrierServiceDefinition } from "@diskmesh/api/rpc";
import {
  CancelledError,
  NotFoundError,
  PermissionDeniedError,
  ResourceExhaustedError,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { Server, ServerCredentials, status } from "@grpc/grpc-js";
import { expect } from "chai";
import type { CallContext } from "./call-context.js";
import type { ClientOptions } from "./client.js";
import { methodsOf } from "./definition.js";
import {
  abortReason,
  Bench,
  collect,
  deferred,
  eachOf,
  eventually,
  type Note,
  NoteService,
} from "./testing/note-bench.js";

const NOTE = { text: "a", count: 7 };
/** More than the listeners of which Node warns. */
const SLOWLY_READ = 40;

describe("carried calls", () => {
  const bench = new Bench();
  before(() => bench.makeCertificates());
  afterEach(() => bench.closeAll());
  after(() => bench.remove());

  const carried = (options: Partial<ClientOptions> = {}) => bench.client({ carried: true, ...options });

  /** One that says what no client of ours does. */
  const carrier = (options: Partial<ClientOptions> = {}) => bench.clientOf(CarrierServiceDefinition, options);

  /** Of two that there may be: the one that it left while a call was under way, and the next. */
  const untilItHasTwoStreams = (client: ReturnType<typeof carried>, openAndEnd: () => Promise<unknown>) =>
    eventually(async () => {
      await client.get({ text: "quick" });
      await rejection(openAndEnd(), Error, "rpc.maxStreamsPerPeer");
    });

  it("takes many at once on one stream, and answers each when it has ended", async () => {
    const waiting = new Map<string, () => void>();
    await bench.serve({
      get: (note) => new Promise((resolve) => waiting.set(note.text, () => resolve(note))),
    });
    const client = carried();
    const answers: string[] = [];
    const calls = ["a", "b", "c"].map((text) => client.get({ text }).then((note) => answers.push(note.text)));
    await eventually(async () => expect(waiting.size).to.equal(3));
    for (const text of ["c", "a", "b"]) {
      waiting.get(text)?.();
      await eventually(async () => expect(answers).to.include(text));
    }
    await Promise.all(calls);
    expect(answers).to.deep.equal(["c", "a", "b"]);
  });

  it("tells handlers what they know of a call by itself, and callers why one failed", async () => {
    const seen: Pick<CallContext, "identity" | "requestId">[] = [];
    await bench.serve(
      {
        get: async ({ text }, { identity, requestId }) => {
          seen.push({ identity, requestId });
          throw new NotFoundError(`no note ${text}`, { about: { note: text } });
        },
      },
      { roles: ["director"] },
    );
    const director = carried({ tls: bench.files("director") });
    const failure = await rejection(director.get(NOTE, { requestId: "request-1" }), NotFoundError, "no note a");
    expect(failure.about).to.deep.equal({ note: "a" });
    expect(seen).to.deep.equal([{ identity: { role: "director", name: "" }, requestId: "request-1" }]);
    expect(bench.failures.map(({ method, status }) => [method, status])).to.deep.equal([
      ["/test.v1.NoteService/Get", "NOT_FOUND"],
    ]);
    await rejection(carried().get(NOTE), PermissionDeniedError, "may not call /test.v1.NoteService/Get");
  });

  it("tells a handler that its caller has had enough, or that its time is up", async () => {
    const reasons: unknown[] = [];
    await bench.serve({
      get: async (note, call) => {
        if (note.text === "quick") return note;
        reasons.push(await abortReason(call));
        return note;
      },
    });
    const client = carried();
    await client.get({ text: "quick" });
    const enough = new AbortController();
    const call = client.get(NOTE, { signal: enough.signal });
    await client.get({ text: "quick" });
    enough.abort(new Error("changed my mind"));
    await rejection(call, CancelledError, "changed my mind");
    await eventually(async () => expect(reasons[0]).to.be.instanceOf(CancelledError));
    // On a busy machine the time may be over before the call has come to the handler.
    await eventually(async () => {
      await rejection(client.get(NOTE, { deadlineMs: 50 }), TimeoutError);
      expect(reasons).to.have.length.above(1);
    });
    expect(await client.get({ text: "quick" })).to.include({ text: "quick" });
  });

  it("tells a handler that its caller is gone, and keeps to a deadline that nobody else watches", async () => {
    const reasons: unknown[] = [];
    let begun = 0;
    await bench.serve({
      get: async (note, call) => {
        begun += 1;
        reasons.push(await abortReason(call));
        return note;
      },
    });
    const path = "/test.v1.NoteService/Get";
    const [late] = await collect(carrier().carry(requestsOf({ path, timeoutMs: 50 })));
    expect(late?.outcome).to.have.nested.property("value.code", status.DEADLINE_EXCEEDED);
    expect(reasons[0]).to.be.instanceOf(TimeoutError);
    const leaving = carried();
    const left = rejection(leaving.get(NOTE), CancelledError);
    await eventually(async () => expect(begun).to.equal(2));
    leaving.close();
    await left;
    await eventually(async () => expect(reasons).to.have.length(2));
    expect(reasons[1]).to.be.instanceOf(CancelledError);
  });

  it("does not know what was done once the connection is lost, and goes on with the next one", async () => {
    const begun: Note[] = [];
    const reasons: unknown[] = [];
    const handlers = {
      get: async (note: Note, call: CallContext) => {
        begun.push(note);
        if (note.text === "quick") return note;
        reasons.push(await abortReason(call));
        return note;
      },
    };
    const server = await bench.serve(handlers, { limits: { drainTimeoutMs: 10 } });
    const client = carried();
    const call = client.get(NOTE);
    await eventually(async () => expect(begun).to.have.length(1));
    const lost = rejection(call, UnavailableError);
    await server.drain();
    expect((await lost).outcome).to.equal("unknown");
    expect(reasons).to.have.length(1);
    await bench.serve(handlers, { port: bench.port });
    await eventually(async () => expect(await client.get({ text: "quick" })).to.include({ text: "quick" }));
  });

  it("has a server that stops end the calls under way first", async () => {
    let end = () => {};
    const server = await bench.serve({
      get: (note) =>
        new Promise((resolve) => {
          end = () => resolve(note);
        }),
    });
    const before = end;
    const call = carried().get(NOTE);
    await eventually(async () => expect(end).not.to.equal(before));
    const drained = server.drain();
    end();
    expect(await call).to.deep.equal(NOTE);
    await drained;
  });

  it("refuses beyond the limits of calls", async () => {
    let end = () => {};
    const until = new Promise<void>((resolve) => {
      end = resolve;
    });
    let begun = 0;
    await bench.serve(
      {
        get: async (note) => {
          begun += 1;
          await until;
          return note;
        },
      },
      { limits: { maxCallsPerPeer: 1 } },
    );
    const client = carried();
    const first = client.get(NOTE);
    await eventually(async () => expect(begun).to.equal(1));
    await rejection(client.get(NOTE), ResourceExhaustedError, "maxCallsPerPeer");
    end();
    await first;
  });

  it("fails for an answer that is too long, and for nothing else", async () => {
    const maxMessageBytes = 100_000;
    await bench.serve(
      { get: async ({ count }) => ({ text: "x".repeat(count), count }) },
      { limits: { maxMessageBytes } },
    );
    const client = carried({ maxMessageBytes });
    // Tags and lengths of the note take 8 bytes; those of what carries it, for a call of a high number, 12.
    const longest = maxMessageBytes - 8 - 12;
    const error = await rejection(
      client.get({ text: "", count: longest + 1 }),
      ResourceExhaustedError,
      "larger than max (99989 vs. 99988)",
    );
    expect(error.outcome).to.equal("unknown");
    expect((await client.get({ text: "", count: longest })).text).to.have.length(longest);
    expect(await client.get({ text: "", count: 2 })).to.deep.equal({ text: "xx", count: 2 });
    const [[, method] = []] = methodsOf(NoteService);
    const call = { path: "/test.v1.NoteService/Get", request: method?.requestSerialize({ text: "", count: longest }) };
    const numbered = [{ callNumber: 2 ** 32 - 1, what: { $case: "call" as const, value: call } }];
    const [answer] = await collect(carrier({ maxMessageBytes }).carry(eachOf(numbered)));
    expect(answer?.outcome).to.have.nested.property("value.length", maxMessageBytes - 12);
  });

  it("sends a request by itself that is too long to be carried", async () => {
    await bench.serve({}, { limits: { maxMessageBytes: 100_000 } });
    const text = "x".repeat(95_000);
    expect((await carried({ maxMessageBytes: 100_000 }).get({ text })).text).to.equal(text);
  });

  it("makes calls by themselves beyond the limit of streams", async () => {
    await bench.serve({}, { limits: { maxStreamsPerPeer: 1 } });
    const openAndEnd = bench.streamOpener();
    await carried().get(NOTE);
    await rejection(openAndEnd(), Error, "rpc.maxStreamsPerPeer");
    const client = carried();
    expect(await Promise.all([client.get(NOTE), client.get(NOTE)])).to.deep.equal([NOTE, NOTE]);
    expect(await client.get(NOTE)).to.deep.equal(NOTE);
  });

  it("are those that a client makes while it has many under way", async () => {
    const waiting: (() => void)[] = [];
    const get = (note: Note): Promise<Note> =>
      note.text === "slow" ? new Promise((resolve) => waiting.push(() => resolve(note))) : Promise.resolve(note);
    await bench.serve({ get }, { limits: { maxStreamsPerPeer: 1 } });
    const openAndEnd = bench.streamOpener();
    const client = bench.client();
    const many = Array.from({ length: 8 }, () => client.get({ text: "slow" }));
    await eventually(async () => expect(waiting).to.have.length(many.length));
    // None has a stream so far.
    await openAndEnd();
    await eventually(async () => {
      expect(await client.get(NOTE)).to.deep.equal(NOTE);
      await rejection(openAndEnd(), Error, "rpc.maxStreamsPerPeer");
    });
    for (const answer of waiting) answer();
    await Promise.all(many);
    expect(await client.get(NOTE)).to.deep.equal(NOTE);
  });

  it("leaves a stream in time, used or not", async () => {
    const answer = deferred();
    const begun = deferred();
    const get = async (note: Note) => {
      if (note.text !== "slow") return note;
      begun.resolve();
      await answer.promise;
      return note;
    };
    await bench.serve({ get }, { limits: { maxStreamsPerPeer: 2 } });
    const openAndEnd = bench.streamOpener();
    const client = carried({ carrierAgeMs: 50 });
    const slow = client.get({ text: "slow" });
    await begun.promise;
    await untilItHasTwoStreams(client, openAndEnd);
    answer.resolve();
    expect(await slow).to.include({ text: "slow" });
    // Others have room for both once nothing is left of them.
    const held = deferred();
    const holding = async function* () {
      yield* requestsOf({ path: "/test.v1.NoteService/Get" });
      await held.promise;
    };
    await eventually(async () => {
      const first = await carrier().carry(holding())[Symbol.asyncIterator]().next();
      expect(first.value?.outcome).to.have.property("$case", "response");
    });
    await eventually(openAndEnd);
    held.resolve();
  });

  it("ends calls with their client, also those on a stream that was left", async () => {
    const begun = deferred();
    const reasons: unknown[] = [];
    const get = async (note: Note, call: CallContext) => {
      if (note.text === "quick") return note;
      begun.resolve();
      reasons.push(await abortReason(call));
      return note;
    };
    await bench.serve({ get }, { limits: { maxStreamsPerPeer: 2 } });
    const openAndEnd = bench.streamOpener();
    const client = carried({ carrierAgeMs: 50 });
    const slow = client.get(NOTE);
    await begun.promise;
    await untilItHasTwoStreams(client, openAndEnd);
    client.close();
    await rejection(slow, CancelledError);
    await eventually(async () => expect(reasons[0]).to.be.instanceOf(CancelledError));
  });

  it("makes calls by themselves of a server that carries none", async () => {
    const { caFile, certFile, keyFile } = bench.files("disk-registry");
    const [ca, cert_chain, private_key] = [caFile, certFile, keyFile].map((file) => readFileSync(file));
    if (!ca || !cert_chain || !private_key) throw new Error("no certificates");
    const server = new Server();
    const get = ({ request }: { request: Note }, callback: (error: null, note: Note) => void) =>
      callback(null, request);
    const [[, method] = []] = methodsOf(NoteService);
    server.addService({ get: method } as never, { get } as never);
    const credentials = ServerCredentials.createSsl(ca, [{ cert_chain, private_key }], true);
    bench.port = await promisify(server.bindAsync.bind(server))("127.0.0.1:0", credentials);
    const client = carried();
    expect(await Promise.all([client.get(NOTE), client.get({ text: "b" })])).to.deep.equal([
      NOTE,
      { text: "b", count: 0 },
    ]);
    expect(await client.get(NOTE)).to.deep.equal(NOTE);
    client.close();
    server.forceShutdown();
  });

  it("waits once for a caller that reads slowly, however many of its calls end", async () => {
    const text = "x".repeat(60_000);
    const waiting: (() => void)[] = [];
    await bench.serve({
      get: (note) =>
        new Promise((resolve) => {
          waiting.push(() => resolve({ ...note, text }));
          // Then all answers are written before the caller can have read one.
          if (waiting.length === SLOWLY_READ) for (const answer of waiting) answer();
        }),
    });
    const warnings: string[] = [];
    const onWarning = ({ name }: Error) => void warnings.push(name);
    process.on("warning", onWarning);
    const calls = async function* () {
      for (let callNumber = 1; callNumber <= SLOWLY_READ; callNumber++)
        yield { callNumber, what: { $case: "call" as const, value: { path: "/test.v1.NoteService/Get" } } };
    };
    const reading = carrier().carry(calls())[Symbol.asyncIterator]();
    let read = 0;
    while (!(await reading.next()).done) read++;
    process.off("warning", onWarning);
    expect(read).to.equal(SLOWLY_READ);
    expect(warnings).to.deep.equal([]);
  });

  it("ends a stream on which a message begins nothing", async () => {
    await bench.serve();
    const nothing = async function* () {
      yield { callNumber: 1 };
    };
    await rejection(collect(carrier().carry(nothing())), Error, "begins no call");
    const [answer] = await collect(carrier().carry(requestsOf({ path: "/no.Service/Method" })));
    expect(answer?.outcome).to.have.nested.property("value.code", status.UNIMPLEMENTED);
  });
});

async function* requestsOf(value: { readonly path: string; readonly timeoutMs?: number }) {
  yield { callNumber: 1, what: { $case: "call" as const, value } };
}

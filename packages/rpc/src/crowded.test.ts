import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type ClientHttp2Stream, connect as connectHttp2 } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import type { CallContext } from "./call/call-context.js";
import { abortReason, Bench, deferred, eventually, type Note } from "./testing/note-bench.js";

const FRAMED_NOTE = Buffer.from([0, 0, 0, 0, 2, 16, 1]);

describe("a crowded server", () => {
  const bench = new Bench();
  before(() => bench.makeCertificates());
  afterEach(() => bench.closeAll());
  after(() => bench.remove());

  const everybody = { roles: ["operator", "disk-agent", "director"] as const };
  const agent = () => bench.client({ tls: bench.files("disk-agent-host-1") });
  const ask = { text: "", count: 1 };

  it("ends silent streams within their time limit and leaves no trace of them", async () => {
    await bench.serve({}, { ...everybody, limits: { firstMessageTimeoutMs: 500, maxSilentStreamsPerPeer: 1000 } });
    const raw = rawStreams(bench, "disk-agent-host-1");
    const silent = ["Add", "Get", "List"].flatMap((method) => raw.open(method, 20));
    // An incomplete message is no message for the idle time.
    const dribbling = raw.open("Get", 5, FRAMED_NOTE.subarray(0, 6));
    for (const stream of [...silent, ...dribbling]) expect(await raw.statusOf(stream)).to.equal("4");
    expect(await bench.client().get(ask)).to.deep.equal(ask);
    raw.close();
  });

  it("ends a peer's oldest silent stream beyond its limit, and keeps serving another peer", async () => {
    await bench.serve({}, { ...everybody, limits: { firstMessageTimeoutMs: 60_000, maxSilentStreamsPerPeer: 10 } });
    const raw = rawStreams(bench, "disk-agent-host-1");
    const first = raw.open("Add", 10);
    await eventually(async () => {
      const [more] = raw.open("Add", 1);
      const ended = first.filter(({ closed }) => closed).length;
      expect(ended).to.be.greaterThan(2);
      expect(more?.closed).to.equal(false);
    });
    expect(await bench.client().get(ask)).to.deep.equal(ask);
    raw.close();
  });

  it("ends the longest idle stream of a peer for its next one, with the reason", async () => {
    await bench.serve({ list: watched }, { ...everybody, limits: { maxStreamsPerPeer: 3, minStreamIdleMs: 200 } });
    const raw = rawStreams(bench, "disk-agent-host-1");
    const idle = raw.watch(3);
    for (const stream of idle) expect(await raw.firstOf(stream)).to.equal("data");
    await eventually(async () => {
      const [next] = raw.watch(1);
      expect(await raw.firstOf(next)).to.equal("data");
    });
    expect(await raw.statusOf(idle[0])).to.equal("14");
    raw.close();
  });

  it("serves watches of operators and reports of agents while streams of agents fill all shared places", async () => {
    const limits = { maxConcurrentStreams: 50, maxStreamsPerPeer: 50, minStreamIdleMs: 60_000, maxConcurrentCalls: 20 };
    await bench.serve({ list: watched }, { ...everybody, limits });
    const raw = rawStreams(bench, "disk-agent-host-1");
    const busy = raw.watch(35);
    for (const stream of busy) expect(await raw.firstOf(stream)).to.equal("data");
    const [oneTooMany] = raw.watch(1);
    expect(await raw.statusOf(oneTooMany)).to.equal("8");
    for await (const note of bench.client().list({ text: "", count: 2 })) expect(note.count).to.equal(2);
    expect(await agent().get(ask)).to.deep.equal(ask);
    raw.close();
  });

  it("serves reports and reads of operators while calls of a director fill all shared places", async () => {
    const held = deferred();
    const hold = async (note: Note, call: CallContext) => {
      if (call.identity.role === "director") await Promise.race([held.promise, abortReason(call)]);
      return note;
    };
    await bench.serve({ get: hold }, { ...everybody, limits: { maxConcurrentCalls: 30 } });
    const director = bench.client({ tls: bench.files("director") });
    const held21 = Array.from({ length: 21 }, () => director.get(ask));
    await eventually(async () => {
      await rejection(director.get(ask, { deadlineMs: 300 }), Error, "(maxConcurrentCalls)");
    });
    expect(await bench.client().get(ask)).to.deep.equal(ask);
    expect(await agent().get(ask)).to.deep.equal(ask);
    held.resolve();
    await Promise.all(held21);
  });

  it("closes hanging handshakes in time, also those that send a byte now and then, and those beyond the limit make room", async () => {
    await bench.serve({}, { limits: { handshakeTimeoutMs: 7_000, maxHandshakesPerAddress: 20 } });
    const hanging = await Promise.all(Array.from({ length: 20 }, () => openTcp(bench)));
    // Header of a TLS record of 16 KiB. OpenSSL detects an error only in a complete record, so the handshake hangs.
    for (const socket of hanging) socket.write(Buffer.from([0x16, 3, 1, 0x40, 0]));
    const dribble = setInterval(() => {
      for (const socket of hanging) socket.write(Buffer.from([1]));
    }, 100);
    // A socket that is closed while it writes ends with an error.
    const closed = hanging.map((socket) => new Promise((end) => socket.on("error", () => {}).once("close", end)));
    await eventually(async () => {
      expect(await bench.client().get(ask)).to.deep.equal(ask);
    });
    await Promise.all(closed);
    clearInterval(dribble);
    const reasons = new Set(bench.refused.map(({ reason }) => reason));
    expect([...reasons]).to.include.members(["rpc.maxHandshakesPerAddress"]);
  });

  it("closes handshakes that send nothing in time", async () => {
    await bench.serve({}, { limits: { handshakeTimeoutMs: 500 } });
    const hanging = await Promise.all(Array.from({ length: 50 }, () => openTcp(bench)));
    // On a busy machine the first connections are closed before the last are established.
    await Promise.all(hanging.map((socket) => socket.closed || once(socket, "close")));
    expect(bench.refused.map(({ reason }) => reason)).to.include("rpc.handshakeTimeoutMs");
    expect(await bench.client().get(ask)).to.deep.equal(ask);
  });

  it("closes connections beyond an address's limit and keeps the existing ones", async () => {
    await bench.serve({}, { limits: { maxConnectionsPerAddress: 2 } });
    const clients = [bench.client(), bench.client()];
    for (const client of clients) await client.get(ask);
    // The client retries, so it gets the place that becomes free.
    const third = bench.client();
    await rejection(third.get(ask), UnavailableError);
    expect(bench.refused.map(({ reason }) => reason)).to.include("rpc.maxConnectionsPerAddress");
    for (const client of clients) expect(await client.get(ask)).to.deep.equal(ask);
    clients[0]?.close();
    await eventually(async () => {
      expect(await third.get(ask)).to.deep.equal(ask);
    });
  });

  it("accepts no connection while resources are short, and accepts again afterwards", async () => {
    let shortage: string | undefined = "descriptors run out";
    await bench.serve({}, { shortage: () => shortage });
    await rejection(bench.client().get(ask), UnavailableError);
    expect(bench.refused[0]?.reason).to.equal("descriptors run out");
    shortage = undefined;
    await eventually(async () => {
      expect(await bench.client().get(ask)).to.deep.equal(ask);
    });
  });
});

/** Yields the note. The call then goes on if the note's count is 1. */
async function* watched(note: Note, call: CallContext): AsyncGenerator<Note> {
  yield note;
  if (note.count === 1) await abortReason(call);
}

function rawStreams(bench: Bench, name: string) {
  const files = bench.files(name);
  const session = connectHttp2(`https://127.0.0.1:${bench.port}`, {
    ca: readFileSync(files.caFile),
    cert: readFileSync(files.certFile),
    key: readFileSync(files.keyFile),
    checkServerIdentity: () => undefined,
  });
  session.on("error", () => {});
  const statuses = new WeakMap<ClientHttp2Stream, Promise<string>>();
  const firsts = new WeakMap<ClientHttp2Stream, Promise<string>>();
  const openOne = (method: string, bytes: Buffer | undefined): ClientHttp2Stream => {
    const stream = session.request({
      ":method": "POST",
      ":path": `/test.v1.NoteService/${method}`,
      "content-type": "application/grpc",
      te: "trailers",
    });
    const status = new Promise<string>((resolve) => {
      const look = (headers: Record<string, unknown>) => {
        if (headers["grpc-status"] !== undefined) resolve(String(headers["grpc-status"]));
      };
      stream.on("response", look).on("trailers", look);
      stream.on("close", () => resolve("closed"));
    });
    statuses.set(stream, status);
    // Registered at once, because several streams may be answered in one turn.
    const first = new Promise<string>((resolve) => {
      for (const event of ["data", "close"]) stream.once(event, () => resolve(event));
    });
    firsts.set(stream, first);
    stream.on("error", () => {}).resume();
    if (bytes) stream.write(bytes);
    return stream;
  };
  return {
    open: (method: string, count: number, bytes?: Buffer) =>
      Array.from({ length: count }, () => openOne(method, bytes)),
    /** Opens streams of responses with their whole request. */
    watch: (count: number) => Array.from({ length: count }, () => openOne("List", FRAMED_NOTE).end()),
    /** Returns the gRPC status with which the stream ends. */
    statusOf: async (stream: ClientHttp2Stream | undefined) => stream && statuses.get(stream),
    firstOf: async (stream: ClientHttp2Stream | undefined) => stream && firsts.get(stream),
    /**
     * Deferred to its own turn: a test continues in the middle of a receive, and Node 20 uses a stream after freeing it
     * (nghttp2_session_mem_recv) when its session is destroyed there, which damages the heap.
     */
    close: () => setImmediate(() => session.destroy()),
  };
}

async function openTcp(bench: Bench): Promise<Socket> {
  const socket = connectTcp(bench.port, "127.0.0.1").on("error", () => {});
  await once(socket, "connect");
  return socket.resume();
}

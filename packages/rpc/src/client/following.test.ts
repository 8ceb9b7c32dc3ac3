import { readFileSync } from "node:fs";
import { constants, createSecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import {
  FencedError,
  InvalidStateError,
  NotFoundError,
  servedElsewhere,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { decodeStatusDetails } from "../errors/google-rpc.js";
import { statusOfError } from "../errors/status-of-error.js";
import type { RpcServer } from "../server/server.js";
import { Bench, collect, eventually, type Note } from "../testing/note-bench.js";

const NOBODY = "127.0.0.1:1";
const note = { text: "a", count: 1 };

describe("a client of several servers", () => {
  const bench = new Bench();
  let calls: string[];
  before(() => bench.makeCertificates());
  beforeEach(() => {
    calls = [];
  });
  afterEach(() => bench.closeAll());
  after(() => bench.remove());

  /** Starts a server that runs `act`, which may throw, for each call; returns its address. */
  async function serve(name: string, act: () => void = () => {}): Promise<{ address: string; server: RpcServer }> {
    const said = (): void => {
      calls.push(name);
      act();
    };
    const server = await bench.serve({
      get: async () => {
        said();
        return { text: name, count: 0 };
      },
      async *list() {
        said();
        yield { text: name, count: 0 };
      },
    });
    return { address: `127.0.0.1:${bench.port}`, server };
  }
  const elsewhere =
    (leaderAddress = "") =>
    (): void => {
      throw servedElsewhere("this one stands by", leaderAddress);
    };

  it("gets the leader and the retry time from a standby's status", () => {
    const { metadata } = statusOfError(servedElsewhere("this one stands by", "127.0.0.1:7"), "r-1");
    const details = decodeStatusDetails(metadata.get("grpc-status-details-bin")[0] as Buffer);
    expect(details.errorInfo?.metadata).to.deep.equal({ leader_address: "127.0.0.1:7" });
    expect(details.retryAfterMs).to.equal(200);
  });

  it("reports each unreachable server with the reason at once, long before the call fails", async () => {
    const told: string[] = [];
    const onUnreached = (address: string, { message }: Error) => told.push(`${address} ${message}`);
    const client = bench.client({ address: [NOBODY, "127.0.0.1:2"], onUnreached });
    const giveUp = new AbortController();
    const asked = client.get(note, { deadlineMs: 300_000, signal: giveUp.signal });
    await eventually(async () => expect(told).to.have.length.above(1));
    giveUp.abort();
    await rejection(asked);
    for (const [index, address] of [NOBODY, "127.0.0.1:2"].entries())
      expect(told[index]).to.match(new RegExp(`^${address} .*: no process listens there`));
  });

  it("uses the next server when the first is unreachable, and starts there from then on", async () => {
    const { address } = await serve("b");
    const client = bench.client({ address: [NOBODY, address] });
    expect((await client.get(note)).text).to.equal("b");
    expect((await collect(client.list(note))).map(({ text }) => text)).to.deep.equal(["b"]);
  });

  it("follows a standby to the leader that it names, also with streams and when only the standby is configured", async () => {
    const leader = await serve("leader");
    const standby = await serve("standby", elsewhere(leader.address));
    for (const address of [standby.address, [standby.address, NOBODY]]) {
      calls = [];
      const client = bench.client({ address });
      expect((await client.get(note)).text).to.equal("leader");
      expect((await client.get(note)).text).to.equal("leader");
      expect(calls).to.deep.equal(["standby", "leader", "leader"]);
      expect((await collect(bench.client({ address }).list(note))).map(({ text }) => text)).to.deep.equal(["leader"]);
    }
  });

  it("finds the leader at a configured address when the name that a standby gives is unknown here", async () => {
    const leader = await serve("leader");
    const standby = await serve("standby", elsewhere("director-1.director.invalid:7010"));
    const client = bench.client({ address: [standby.address, leader.address] });
    expect((await client.get(note)).text).to.equal("leader");
    expect(calls).to.deep.equal(["standby", "leader"]);
  });

  it("retries until a leader exists", async () => {
    let leads = false;
    const act = (): void => {
      if (!leads) elsewhere(NOBODY)();
    };
    const a = await serve("a", act);
    const client = bench.client({ address: [NOBODY, a.address] });
    const answer = client.get(note);
    await eventually(async () => expect(calls.length).to.be.above(1));
    leads = true;
    expect((await answer).text).to.equal("a");
    expect(calls.length).to.be.above(1).and.below(10);
  });

  it("fails as UNAVAILABLE and not done, within the deadline, when no leader exists", async () => {
    const a = await serve("a", elsewhere());
    const client = bench.client({ address: [a.address, NOBODY] });
    let startMs = 0;
    // On a busy machine the last attempt may get no answer in the remaining time, and then its outcome is unknown.
    const error = await eventually(() => {
      startMs = performance.now();
      return rejection(client.get(note, { deadlineMs: 3_000 }), UnavailableError);
    });
    expect(error.outcome).to.equal("not_done");
    expect(error.about).not.to.have.property("leader_address");
    expect(performance.now() - startMs).to.be.below(30_000);
  });

  it("calls no further server in the last moment, in which the call would end as unknown", async () => {
    await bench.serve({ get: () => new Promise<Note>(() => {}) }, { limits: { drainTimeoutMs: 10 } });
    const leader = `127.0.0.1:${bench.port}`;
    await bench.serve({
      get: async () => {
        await delay(2_700);
        return elsewhere(leader)() as never;
      },
    });
    const client = bench.client({ address: [`127.0.0.1:${bench.port}`, leader] });
    // On a busy machine the first server may answer too late.
    const error = await eventually(() => rejection(client.get(note, { deadlineMs: 3_000 }), UnavailableError));
    expect(error.outcome).to.equal("not_done");
  });

  it("calls the next server when one is fenced or stopping", async () => {
    const fenced = await serve("fenced", () => {
      throw new FencedError("another process leads");
    });
    const leader = await serve("leader");
    const client = bench.client({ address: [fenced.address, leader.address] });
    expect((await client.get(note)).text).to.equal("leader");
    const other = bench.client({ address: [leader.address, fenced.address] });
    await other.get(note);
    const last = await serve("last");
    await leader.server.drain();
    const third = bench.client({ address: [leader.address, last.address] });
    expect((await third.get(note)).text).to.equal("last");
  });

  const final: readonly [string, Error][] = [
    ["may have done something", new UnavailableError("lost", { outcome: "unknown" })],
    ["ran out of time", new TimeoutError("too slow")],
    ["leads but cannot serve the call now", new UnavailableError("a host is away")],
    ["refuses", new InvalidStateError("no")],
  ];
  for (const [what, thrown] of final)
    it(`calls a server that ${what} once, and reports the error to the caller`, async () => {
      const a = await serve("a", () => {
        throw thrown;
      });
      const b = await serve("b", () => {
        throw thrown;
      });
      const error = await rejection(bench.client({ address: [a.address, b.address] }).get(note));
      expect(error.message).to.equal(thrown.message);
      expect(calls).to.deep.equal(["a"]);
    });

  it("times out at a server that hangs, and sends the next call elsewhere", async () => {
    const get = (request: Note) =>
      request.text === "connect" ? Promise.resolve(request) : new Promise<Note>(() => {});
    await bench.serve({ get }, { limits: { drainTimeoutMs: 10 } });
    const address = `127.0.0.1:${bench.port}`;
    const b = await serve("b");
    const client = bench.client({ address: [address, b.address] });
    // Connects first, because on a busy machine connecting takes longer than the call's deadline.
    expect((await client.get({ text: "connect" })).text).to.equal("connect");
    await rejection(client.get(note, { deadlineMs: 200 }), TimeoutError);
    expect((await client.get(note)).text).to.equal("b");
  });

  it("repeats a call whose stream the server refused", async () => {
    const { certFile, keyFile } = bench.files("disk-registry");
    const refusing = createSecureServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) });
    let streams = 0;
    refusing.on("stream", (stream) => {
      streams += 1;
      stream.on("error", () => {});
      if (streams === 1) stream.close(constants.NGHTTP2_REFUSED_STREAM);
      else stream.respond({ "content-type": "application/grpc", "grpc-status": "5" }, { endStream: true });
    });
    await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", resolve));
    const client = bench.client({ address: `127.0.0.1:${(refusing.address() as AddressInfo).port}` });
    await rejection(client.get(note), NotFoundError);
    expect(streams).to.equal(2);
    client.close();
    refusing.close();
  });

  it("does not follow a malformed leader address", async () => {
    const a = await serve("a", elsewhere("unix:/run/other.sock"));
    const error = await rejection(bench.client({ address: a.address }).get(note));
    expect(error.message).to.equal("this one stands by");
    expect(calls).to.deep.equal(["a"]);
  });

  it("ends at once when cancelled while it looks for the leader", async () => {
    const a = await serve("a", elsewhere());
    const cancel = new AbortController();
    const answer = rejection(bench.client({ address: [a.address, NOBODY] }).get(note, { signal: cancel.signal }));
    await delay(200);
    const cancelledMs = performance.now();
    cancel.abort(new Error("enough"));
    expect((await answer).name).to.equal("CancelledError");
    expect(performance.now() - cancelledMs).to.be.below(30_000);
  });

  it("ends the call as not done when closed while it looks for the leader, and makes no further tries", async () => {
    const a = await serve("a", elsewhere());
    const client = bench.client({ address: [a.address, NOBODY] });
    const calling = rejection(client.get(note, { deadlineMs: 10_000 }));
    while (calls.length < 2) await delay(5);
    client.close();
    const { length } = calls;
    expect(await calling).to.include({ name: "UnavailableError", outcome: "not_done" });
    expect(calls.length - length, "calls after it was closed").to.be.below(2);
    expect(await rejection(client.get(note))).to.include({ name: "UnavailableError", outcome: "not_done" });
  });

  it("reports calls under way as unknown when a server stops leading, and serves new ones", async () => {
    let reached: () => void = () => {};
    const isReached = new Promise<void>((resolve) => {
      reached = resolve;
    });
    const server = await bench.serve({
      get: (request) => {
        if (request.text !== "wait") return Promise.resolve(request);
        reached();
        return new Promise<Note>(() => {});
      },
    });
    const client = bench.client();
    const waiting = rejection(client.get({ text: "wait", count: 0 }));
    await isReached;
    server.abortCalls(new UnavailableError("leads no more", { outcome: "unknown" }));
    expect((await waiting).outcome).to.equal("unknown");
    expect((await client.get(note)).text).to.equal("a");
  });
});

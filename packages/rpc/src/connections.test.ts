import { connect as connectTcp, createServer, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { InvalidArgumentError, InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { KEEPALIVE_OPTIONS } from "./call/limits.js";
import { abortReason, Bench, collect, deferred, eventually, type Note, rawClient } from "./testing/note-bench.js";

/** Time after which both ends have had a ping to send since the connection was made. */
const KEEPALIVE_DUE_MS = KEEPALIVE_OPTIONS["grpc.keepalive_time_ms"] + 1_000;

describe("servers and their connections", () => {
  const bench = new Bench();
  before(() => bench.makeCertificates());
  afterEach(() => bench.closeAll());
  after(() => bench.remove());

  describe("connections", () => {
    it("that were never established guarantee that nothing was done", async () => {
      // Port 1 rather than a recently freed port, which another process may have taken.
      const error = await rejection(bench.client({ address: "127.0.0.1:1" }).get({ text: "", count: 0 }));
      expect(error).to.be.instanceOf(UnavailableError).and.include({ outcome: "not_done" });
    });

    it("that are cut during a call leave its outcome unknown, nothing is done twice, and they are re-established", async () => {
      const begun: string[] = [];
      await bench.serve({
        get: (request) => {
          begun.push(request.text);
          return request.text === "stuck" ? new Promise(() => {}) : Promise.resolve(request);
        },
      });
      const wire = await Wire.to(bench.port);
      const client = bench.client({ address: `127.0.0.1:${wire.port}` });
      await client.get({ text: "quick" });
      const stuck = rejection(client.get({ text: "stuck" }), UnavailableError);
      await eventually(async () => expect(begun).to.deep.equal(["quick", "stuck"]));
      await wire.cut();
      expect(await stuck).to.include({ outcome: "unknown" });
      expect(await rejection(client.get({ text: "away" }), UnavailableError)).to.include({ outcome: "not_done" });
      const mended = await Wire.to(bench.port, wire.port);
      await eventually(async () => expect(await client.get({ text: "again" })).to.include({ text: "again" }));
      expect(begun).to.deep.equal(["quick", "stuck", "again"]);
      await mended.cut();
    });
  });

  describe("stopping", () => {
    it("lets calls under way finish, refuses new ones, and ends streams", async () => {
      const gate = deferred();
      const begun = new Set<string>();
      const server = await bench.serve({
        get: async (request) => {
          begun.add("get");
          await gate.promise;
          return request;
        },
        async *list(request, call) {
          begun.add("list");
          yield request;
          await abortReason(call);
        },
      });
      const client = bench.client();
      const get = client.get({ text: "", count: 9 });
      const list = rejection(collect(client.list({ text: "", count: 0 })));
      await eventually(async () => expect(begun.size).to.equal(2));
      const drained = server.drain();
      expect(await list).to.be.instanceOf(UnavailableError);
      for (const caller of [client, bench.client()]) {
        const refused = await rejection(caller.get({ text: "", count: 0 }, { deadlineMs: 10_000 }), UnavailableError);
        expect(refused.outcome).to.equal("not_done");
      }
      gate.resolve();
      expect(await get).to.include({ count: 9 });
      await drained;
    });

    it("lets a call under way outlast keepalive pings", async () => {
      const gate = deferred();
      const started = deferred();
      const server = await bench.serve(
        {
          get: async (request) => {
            started.resolve();
            await gate.promise;
            return request;
          },
        },
        { limits: { drainTimeoutMs: 120_000 } },
      );
      const get = bench.client().get({ text: "", count: 9 });
      await started.promise;
      const drained = server.drain();
      await delay(KEEPALIVE_DUE_MS);
      gate.resolve();
      expect(await get).to.include({ count: 9 });
      await drained;
    });

    it("has reported each call that may have changed something exactly once by its end", async () => {
      const server = await bench.serve();
      const client = bench.client();
      const texts = Array.from({ length: 20 }, (_, index) => String(index));
      await Promise.all(texts.map((text) => client.get({ text })));
      client.close();
      await server.drain();
      expect(bench.changes).to.have.members(texts);
    });

    it("does not wait longer than drainTimeoutMs for a handler that ignores its signal", async () => {
      const started = deferred();
      const server = await bench.serve(
        {
          get: () => {
            started.resolve();
            return new Promise(() => {});
          },
        },
        { limits: { drainTimeoutMs: 200 } },
      );
      const get = rejection(bench.client().get({ text: "", count: 0 }));
      await started.promise;
      const startedMs = performance.now();
      await server.drain();
      expect(performance.now() - startedMs).to.be.within(150, 30_000);
      expect(await get)
        .to.be.instanceOf(UnavailableError)
        .and.include({ outcome: "unknown" });
    });
  });

  it("answers every ping of a client, however often it sends one, with and without a call", async () => {
    const gate = deferred();
    const begun = deferred();
    await bench.serve({
      async *list(request) {
        yield request;
        begun.resolve();
        await gate.promise;
      },
    });
    const client = rawClient(bench, "operator");
    const pings = async (count: number) => {
      for (let sent = 0; sent < count; sent++) await client.ping();
    };
    // Node cancels pings before the connection is made.
    await client.raw("/test.v1.NoteService/Get", Buffer.alloc(0));
    await pings(100);
    const list = client.raw("/test.v1.NoteService/List", Buffer.alloc(0));
    await begun.promise;
    await pings(100);
    gate.resolve();
    expect(await list).to.include({ code: 0 });
    client.close();
  });

  it("completes calls and streams under way when their client closes, and outlasts keepalive pings", async () => {
    const gate = deferred();
    const begun = new Set<string>();
    await bench.serve({
      get: async (request) => {
        begun.add("get");
        await gate.promise;
        return request;
      },
      async *list(request) {
        yield request;
        begun.add("list");
        await gate.promise;
        yield request;
      },
    });
    const client = bench.client();
    const note = { text: "a", count: 1 };
    async function* slowly(): AsyncGenerator<Note> {
      yield note;
      begun.add("add");
      await gate.promise;
      yield note;
    }
    const ended = Promise.all([client.get(note), collect(client.list(note)), client.add(slowly())]);
    await eventually(async () => expect(begun.size).to.equal(3));
    client.close();
    await delay(KEEPALIVE_DUE_MS);
    gate.resolve();
    expect(await ended).to.deep.equal([note, [note, note], { text: "aa", count: 2 }]);
    expect((await rejection(client.get(note), UnavailableError)).outcome).to.equal("not_done");
  });

  it("names the address that cannot be bound", async () => {
    await bench.serve();
    const other = new Bench();
    try {
      await other.makeCertificates();
      const error = await rejection(other.serve({}, { port: bench.port }), InvalidStateError);
      expect(error.message).to.contain(`127.0.0.1:${bench.port}`).and.contain("in use");
    } finally {
      await other.closeAll();
      other.remove();
    }
  });

  it("names the TLS file that cannot be read", () => {
    expect(() => bench.client({ tls: { ...bench.files("operator"), certFile: "/nowhere.pem" } }))
      .to.throw(InvalidArgumentError)
      .with.property("message")
      .that.contains("/nowhere.pem");
  });
});

/** A proxied connection that a test can cut without notice, as when a machine crashes. */
class Wire {
  readonly #sockets = new Set<Socket>();
  readonly #listener;
  port = 0;

  static async to(port: number, ownPort = 0): Promise<Wire> {
    const wire = new Wire(port);
    await new Promise<void>((resolve) => wire.#listener.listen(ownPort, "127.0.0.1", resolve));
    wire.port = (wire.#listener.address() as { readonly port: number }).port;
    return wire;
  }

  private constructor(port: number) {
    this.#listener = createServer((near) => {
      const far = connectTcp(port, "127.0.0.1");
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.on("error", () => {});
      }
      near.pipe(far).pipe(near);
    });
  }

  async cut(): Promise<void> {
    const closed = new Promise((resolve) => this.#listener.close(resolve));
    for (const socket of this.#sockets) socket.resetAndDestroy();
    await closed;
  }
}

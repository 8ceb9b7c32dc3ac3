import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  CancelledError,
  InvalidArgumentError,
  InvalidStateError,
  NotFoundError,
  OutdatedError,
  PermissionDeniedError,
  ResourceExhaustedError,
  type Role,
  TimeoutError,
  UnauthenticatedError,
  UnavailableError,
} from "@diskmesh/domain";
import { createAuthority, createDevelopmentCertificates, issueCertificate, type KeyPair } from "@diskmesh/pki";
import { expect } from "chai";
import type { CallContext } from "./call-context.js";
import { abortReason, Bench, collect, type Note, rawClient, rejection } from "./testing.js";

describe("RpcServer and createClient", () => {
  const bench = new Bench();
  before(() => bench.makeCertificates());
  afterEach(() => bench.closeAll());
  after(() => bench.remove());

  describe("calls", () => {
    it("serves all four kinds of method", async () => {
      await bench.serve();
      const client = bench.client();
      expect(await client.get({ text: "a", count: 7 })).to.deep.equal({ text: "a", count: 7 });
      expect(await collect(client.list({ text: "b", count: 3 }))).to.deep.equal(
        [1, 2, 3].map((count) => ({ text: "b", count })),
      );
      expect(await client.add(notes("x", "y"))).to.deep.equal({ text: "xy", count: 3 });
      expect((await collect(client.talk(notes("x", "y")))).map((note) => note.text)).to.deep.equal(["X", "Y"]);
    });

    it("tells the handler who calls, from the client certificate", async () => {
      const seen: unknown[] = [];
      await bench.serve(
        {
          get: async (request, call) => {
            seen.push(call.identity, call.requestId);
            return request;
          },
        },
        { roles: { get: ["disk-agent", "director"], list: [], add: [], talk: [] } },
      );
      const agent = bench.client({ tls: bench.files("disk-agent-host-1") });
      await agent.get({ text: "", count: 0 }, { requestId: "request-1" });
      await agent.get({ text: "", count: 0 });
      await agent.get({ text: "", count: 0 }, { requestId: "bad id\u0007" });
      await bench.client({ tls: bench.files("director") }).get({ text: "", count: 0 });
      expect(seen[0]).to.deep.equal({ role: "disk-agent", name: "host-1" });
      expect(seen[1]).to.equal("request-1");
      expect(seen[3]).to.match(/^[0-9a-f]{8}-\d+$/);
      expect(seen[5]).to.match(/^[0-9a-f]{8}-\d+$/);
      expect(seen[6]).to.deep.equal({ role: "director", name: "" });
    });

    it("moves many responses without holding all of them", async () => {
      let made = 0;
      await bench.serve({
        async *list() {
          for (; made < 500; made++) yield { text: "x".repeat(100_000), count: made };
        },
      });
      let read = 0;
      for await (const _note of bench.client().list({ text: "", count: 0 })) {
        if (read === 0) {
          await delay(300);
          expect(made).to.be.lessThan(100);
        }
        read++;
      }
      expect(read).to.equal(500);
    });
  });

  describe("callers", () => {
    it("of a role that is not allowed are refused, with what would be allowed", async () => {
      await bench.serve();
      const error = await rejection(
        bench.client({ tls: bench.files("disk-agent-host-1") }).get({ text: "", count: 0 }),
      );
      expect(error).to.be.instanceOf(PermissionDeniedError);
      expect(error.message).to.equal(
        "disk-agent host-1 may not call /test.v1.NoteService/Get: allowed are operator, director",
      );
      expect(bench.failures[0]).to.include({ method: "/test.v1.NoteService/Get", status: "PERMISSION_DENIED" });
    });

    it("are refused by method", async () => {
      await bench.serve({}, { roles: { get: ["operator"], list: [], add: ["director"], talk: ["director"] } });
      const client = bench.client();
      await client.get({ text: "", count: 0 });
      expect(await rejection(collect(client.list({ text: "", count: 1 })))).to.be.instanceOf(PermissionDeniedError);
      expect(await rejection(client.add(notes()))).to.be.instanceOf(PermissionDeniedError);
      expect(await rejection(collect(client.talk(notes("x"))))).to.be.instanceOf(PermissionDeniedError);
    });

    it("with a certificate of another authority do not get in", async () => {
      await bench.serve();
      const foreign = join(bench.folder, "foreign");
      await createDevelopmentCertificates(foreign, { hostIds: [] });
      const tls = { ...bench.files("operator", foreign), caFile: bench.files("operator").caFile };
      expect(await rejection(bench.client({ tls }).get({ text: "", count: 0 }))).to.be.instanceOf(UnavailableError);
    });

    it("with a certificate that names no identity of diskmesh are not authenticated", async () => {
      const authority = await createAuthority({ commonName: "test", validDays: 1 });
      const other = new Bench();
      try {
        await issueInto(other.folder, authority, "disk-registry", "disk-registry");
        await issueInto(other.folder, authority, "nobody", "stranger" as Role);
        await other.serve();
        const error = await rejection(other.client({ tls: other.files("nobody") }).get({ text: "", count: 0 }));
        expect(error).to.be.instanceOf(UnauthenticatedError);
        expect(other.failures[0]?.identity).to.equal(undefined);
      } finally {
        await other.closeAll();
        other.remove();
      }
    });

    it("refuse a server of another role or name", async () => {
      await bench.serve();
      const role = await rejection(bench.client({ serverRole: "director" }).get({ text: "", count: 0 }));
      expect(role).to.be.instanceOf(UnavailableError).and.include({ outcome: "not_done" });
      expect(role.message).to.contain("is not director: its certificate names disk-registry");
      const name = await rejection(bench.client({ serverName: "other" }).get({ text: "", count: 0 }));
      expect(name.message).to.contain("is not disk-registry other");
    });
  });

  describe("errors", () => {
    it("of the domain arrive as they were thrown", async () => {
      await bench.serve({
        get: async (request) => {
          if (request.text === "outdated") throw new OutdatedError("too old", { about: { device_id: "d-1" } });
          if (request.text === "state") throw new InvalidStateError("is in use", { retryAfterMs: 1500 });
          if (request.text === "odd") throw new NotFoundError(`no ${"\ud800"} disk \u00fc "\n`);
          throw new UnavailableError("lost it", { outcome: "unknown" });
        },
      });
      const client = bench.client();
      const outdated = await rejection(client.get({ text: "outdated", count: 0 }));
      expect(outdated).to.be.instanceOf(OutdatedError);
      expect(outdated).to.deep.include({ message: "too old", about: { device_id: "d-1" }, outcome: "not_done" });
      expect(await rejection(client.get({ text: "state", count: 0 })))
        .to.be.instanceOf(InvalidStateError)
        .and.include({ retryAfterMs: 1500 });
      expect((await rejection(client.get({ text: "odd", count: 0 }))).message).to.equal('no \ufffd disk \u00fc "\n');
      expect(await rejection(client.get({ text: "", count: 0 })))
        .to.be.instanceOf(UnavailableError)
        .and.deep.include({ outcome: "unknown", about: {} });
    });

    it("that are bugs tell the client only the request id, and the log everything", async () => {
      const bug = new TypeError("secret is undefined");
      const broken = () => Promise.reject(bug);
      await bench.serve({
        get: broken,
        add: broken,
        // biome-ignore lint/correctness/useYield: it fails first
        async *talk() {
          throw bug;
        },
        list: () => {
          throw bug;
        },
      });
      const client = bench.client();
      for (const run of [
        () => client.get({ text: "", count: 0 }),
        () => collect(client.list({ text: "", count: 0 })),
        () => client.add(notes("x")),
        () => collect(client.talk(notes("x"))),
      ]) {
        const error = await rejection(run());
        expect(error).to.be.instanceOf(UnavailableError).and.include({ outcome: "unknown" });
        expect(error.message)
          .to.match(/request id [0-9a-f]{8}-\d+$/)
          .and.not.contain("secret");
        expect(bench.failures.at(-1)).to.include({ status: "INTERNAL", error: bug, unexpected: true });
      }
    });

    it("of answers that cannot be encoded are bugs too", async () => {
      const odd = { text: "", count: 2 ** 60 };
      await bench.serve({
        get: async () => odd,
        async *list() {
          yield odd;
        },
      });
      for (const run of [
        bench.client().get({ text: "", count: 0 }),
        collect(bench.client().list({ text: "", count: 0 })),
      ]) {
        expect((await rejection(run)).message).to.match(/request id/);
        expect(bench.failures.at(-1)).to.include({ status: "INTERNAL", unexpected: true });
      }
    });

    it("end a stream after what was yielded before", async () => {
      await bench.serve({
        async *list() {
          yield { text: "first", count: 1 };
          throw new NotFoundError("no second");
        },
      });
      const read: Note[] = [];
      const error = await rejection(
        (async () => {
          for await (const note of bench.client().list({ text: "", count: 0 })) read.push(note);
        })(),
      );
      expect(read).to.have.length(1);
      expect(error).to.be.instanceOf(NotFoundError);
    });

    it("of an iterable that the client sends are what the caller gets", async () => {
      await bench.serve();
      async function* broken(): AsyncGenerator<Note> {
        yield { text: "x", count: 1 };
        throw new NotFoundError("no more notes");
      }
      expect((await rejection(bench.client().add(broken()))).message).to.equal("no more notes");
      expect((await rejection(collect(bench.client().talk(broken())))).message).to.equal("no more notes");
    });
  });

  describe("limits", () => {
    it("refuse integers beyond 2^53 - 1 as an invalid argument, and say so only to those who may call", async () => {
      await bench.serve();
      const { raw, close } = rawClient(bench, "operator");
      const agent = rawClient(bench, "disk-agent-host-1");
      const bytes = Buffer.from([16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
      try {
        expect(await raw("/test.v1.NoteService/Get", bytes)).to.deep.include({ code: 3 });
        expect(await raw("/test.v1.NoteService/Get", Buffer.from([10, 200]))).to.deep.include({ code: 3 });
        expect(await agent.raw("/test.v1.NoteService/Get", bytes)).to.deep.include({ code: 7 });
      } finally {
        close();
        agent.close();
      }
    });

    it("refuse an undecodable message in the middle of a stream", async () => {
      let before = 0;
      await bench.serve({
        async add(requests) {
          for await (const _request of requests) before++;
          return { text: "", count: before };
        },
      });
      const { stream, close } = rawClient(bench, "operator");
      try {
        const good = Buffer.from([16, 1]);
        expect(await stream("/test.v1.NoteService/Add", [good, Buffer.from([10, 200])])).to.deep.include({ code: 3 });
        expect(before).to.equal(1);
      } finally {
        close();
      }
    });

    it("refuse messages above maxMessageBytes on either side", async () => {
      await bench.serve(
        { get: async () => ({ text: "x".repeat(5000), count: 1 }) },
        { limits: { maxMessageBytes: 4096 } },
      );
      const long = { text: "x".repeat(5000), count: 0 };
      const here = await rejection(bench.client({ maxMessageBytes: 4096 }).get(long));
      expect(here).to.be.instanceOf(ResourceExhaustedError).and.include({ outcome: "not_done" });
      const there = await rejection(bench.client().get(long));
      expect(there).to.be.instanceOf(ResourceExhaustedError).and.include({ outcome: "unknown" });
      expect(await rejection(bench.client().get({ text: "", count: 0 }))).to.be.instanceOf(ResourceExhaustedError);
    });

    it("refuse calls above maxConcurrentCalls with a time to retry, and let them in again later", async () => {
      const gate = deferred();
      await bench.serve(
        {
          get: async (request) => {
            await gate.promise;
            return request;
          },
        },
        { limits: { maxConcurrentCalls: 2 } },
      );
      const client = bench.client();
      const running = [client.get({ text: "", count: 1 }), client.get({ text: "", count: 2 })];
      await delay(100);
      const error = await rejection(client.get({ text: "", count: 3 }));
      expect(error).to.be.instanceOf(ResourceExhaustedError).and.include({ retryAfterMs: 200, outcome: "not_done" });
      gate.resolve();
      await Promise.all(running);
      expect(await client.get({ text: "", count: 4 })).to.include({ count: 4 });
    });
  });

  describe("time", () => {
    it("never runs a handler whose deadline has passed", async () => {
      let ran = 0;
      await bench.serve({
        get: async (request) => {
          ran++;
          return request;
        },
      });
      const { raw, close } = rawClient(bench, "operator");
      try {
        expect(await raw("/test.v1.NoteService/Get", Buffer.alloc(0), { "grpc-timeout": "1n" })).to.deep.include({
          code: 4,
        });
        expect(ran).to.equal(0);
        expect(await raw("/test.v1.NoteService/Get", Buffer.alloc(0))).to.deep.include({ code: 0 });
        expect(ran).to.equal(1);
      } finally {
        close();
      }
    });

    it("aborts the handler at the client's deadline", async () => {
      const reasons: unknown[] = [];
      await bench.serve({
        get: async (request, call) => {
          reasons.push(call.deadlineAtMs - Date.now());
          reasons.push(await abortReason(call));
          return request;
        },
      });
      const error = await rejection(bench.client().get({ text: "", count: 0 }, { deadlineMs: 200 }));
      expect(error).to.be.instanceOf(TimeoutError).and.include({ outcome: "unknown" });
      await delay(100);
      expect(reasons[0]).to.be.within(100, 200);
      // The client's clock started first, so mostly its cancellation arrives before the server's own timer ends.
      expect((reasons[1] as Error).name).to.be.oneOf(["TimeoutError", "CancelledError"]);
    });

    it("ends calls at the server's own limit, also when the client set none or a longer one", async () => {
      const reasons: unknown[] = [];
      const stuck = {
        get: async (request: Note, call: CallContext) => {
          reasons.push(await abortReason(call));
          return request;
        },
      };
      await bench.serve(stuck, { limits: { defaultDeadlineMs: 100, maxDeadlineMs: 150 } });
      const { raw, close } = rawClient(bench, "operator");
      try {
        for (const headers of [undefined, { "grpc-timeout": "10S" }]) {
          const startedMs = performance.now();
          expect(await raw("/test.v1.NoteService/Get", Buffer.alloc(0), headers)).to.deep.include({ code: 4 });
          expect(performance.now() - startedMs).to.be.within(90, 5000);
        }
        for (const reason of reasons) expect(reason).to.be.instanceOf(TimeoutError);
        expect(reasons).to.have.length(2);
      } finally {
        close();
      }
    });

    it("gives streams no deadline of its own", async () => {
      await bench.serve(
        {
          async *list(_request, call) {
            await delay(300);
            yield { text: String(call.deadlineAtMs), count: 1 };
          },
        },
        { limits: { defaultDeadlineMs: 100, maxDeadlineMs: 100 } },
      );
      expect((await collect(bench.client().list({ text: "", count: 0 })))[0]?.text).to.equal("Infinity");
    });
  });

  describe("cancelling", () => {
    it("aborts the handler of each kind, with the reason", async () => {
      const reasons: Record<string, unknown> = {};
      await bench.serve({
        get: async (request, call) => {
          reasons.get = await abortReason(call);
          return request;
        },
        async *list(request, call) {
          yield request;
          reasons.list = await abortReason(call);
        },
        async *talk(requests, call) {
          try {
            for await (const request of requests) yield request;
          } catch (error) {
            reasons.talkRequests = error;
          }
          reasons.talk = await abortReason(call);
        },
      });
      const client = bench.client();
      const cancelling = new AbortController();
      const { signal } = cancelling;
      const get = rejection(client.get({ text: "", count: 0 }, { signal }));
      const list = rejection(collect(client.list({ text: "", count: 0 }, { signal })));
      const talk = rejection(collect(client.talk(endless(), { signal })));
      await delay(150);
      cancelling.abort(new Error("enough"));
      for (const error of await Promise.all([get, list, talk])) {
        expect(error).to.be.instanceOf(CancelledError);
        expect(error.message).to.contain("enough");
      }
      await delay(100);
      for (const name of ["get", "list", "talk", "talkRequests"])
        expect(reasons[name], name).to.be.instanceOf(CancelledError);
    });

    it("never looks to the handler like the end of the requests", async () => {
      const ends: unknown[] = [];
      await bench.serve({
        async add(requests) {
          try {
            for await (const _request of requests);
            ends.push("the end");
          } catch (error) {
            ends.push((error as Error).name);
          }
          return { text: "", count: 0 };
        },
      });
      const client = bench.client();
      for (let round = 0; round < 50; round++) {
        const cancelling = new AbortController();
        const add = rejection(client.add(endless(), { signal: cancelling.signal }));
        await delay(5);
        cancelling.abort();
        await add;
      }
      await delay(100);
      expect(new Set(ends)).to.deep.equal(new Set(["CancelledError"]));
    });

    it("happens when the caller stops reading", async () => {
      let reason: unknown;
      await bench.serve({
        async *list(request, call) {
          yield request;
          reason = await abortReason(call);
        },
      });
      for await (const _note of bench.client().list({ text: "", count: 0 })) break;
      await delay(100);
      expect(reason).to.be.instanceOf(CancelledError);
    });

    it("refuses a call whose signal had aborted before", async () => {
      await bench.serve();
      const error = await rejection(bench.client().get({ text: "", count: 0 }, { signal: AbortSignal.abort() }));
      expect(error).to.be.instanceOf(CancelledError);
    });
  });

  describe("connections", () => {
    it("that were never made leave it certain that nothing was done", async () => {
      await bench.serve();
      await bench.closeAll();
      const error = await rejection(bench.client().get({ text: "", count: 0 }));
      expect(error).to.be.instanceOf(UnavailableError).and.include({ outcome: "not_done" });
    });

    it("that break during a call leave it unknown, and come back by themselves", async () => {
      const server = await bench.serve(
        { get: async (request) => (request.text === "stuck" ? new Promise<never>(() => {}) : request) },
        { limits: { drainTimeoutMs: 50 } },
      );
      const client = bench.client();
      await client.get({ text: "", count: 0 });
      const stuck = rejection(client.get({ text: "stuck", count: 0 }));
      await delay(50);
      const { port } = bench;
      await server.drain();
      expect(await stuck)
        .to.be.instanceOf(UnavailableError)
        .and.include({ outcome: "unknown" });
      await bench.serve({}, { port });
      const startedMs = performance.now();
      for (;;) {
        const done = await client.get({ text: "", count: 5 }).catch(() => undefined);
        if (done) break;
        if (performance.now() - startedMs > 4000) throw new Error("it did not come back");
        await delay(50);
      }
    });
  });

  describe("stopping", () => {
    it("lets calls under way finish, refuses new ones, and ends streams", async () => {
      const gate = deferred();
      const server = await bench.serve({
        get: async (request) => {
          await gate.promise;
          return request;
        },
        async *list(request, call) {
          yield request;
          await abortReason(call);
        },
      });
      const client = bench.client();
      const get = client.get({ text: "", count: 9 });
      const list = rejection(collect(client.list({ text: "", count: 0 })));
      await delay(100);
      const drained = server.drain();
      expect(await list).to.be.instanceOf(UnavailableError);
      expect(await rejection(bench.client().get({ text: "", count: 0 }))).to.be.instanceOf(UnavailableError);
      gate.resolve();
      expect(await get).to.include({ count: 9 });
      await drained;
    });

    it("does not wait longer than drainTimeoutMs for a handler that does not listen", async () => {
      const server = await bench.serve({ get: () => new Promise(() => {}) }, { limits: { drainTimeoutMs: 200 } });
      const get = rejection(bench.client().get({ text: "", count: 0 }));
      await delay(100);
      const startedMs = performance.now();
      await server.drain();
      expect(performance.now() - startedMs).to.be.within(150, 5000);
      expect(await get)
        .to.be.instanceOf(UnavailableError)
        .and.include({ outcome: "unknown" });
    });
  });

  it("says which address cannot be listened on", async () => {
    await bench.serve();
    const other = new Bench();
    try {
      await other.makeCertificates();
      const error = await rejection(other.serve({}, { port: bench.port }));
      expect(error).to.be.instanceOf(InvalidStateError);
      expect(error.message).to.contain(`127.0.0.1:${bench.port}`).and.contain("in use");
    } finally {
      await other.closeAll();
      other.remove();
    }
  });

  it("says which TLS file cannot be read", () => {
    expect(() => bench.client({ tls: { ...bench.files("operator"), certFile: "/nowhere.pem" } }))
      .to.throw(InvalidArgumentError)
      .with.property("message")
      .that.contains("/nowhere.pem");
  });
});

async function* notes(...texts: string[]): AsyncGenerator<Note> {
  for (const [index, text] of texts.entries()) yield { text, count: index + 1 };
}

async function* endless(): AsyncGenerator<Note> {
  yield { text: "x", count: 1 };
  await new Promise(() => {});
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

async function issueInto(folder: string, authority: KeyPair, name: string, role: Role): Promise<void> {
  const issued = await issueCertificate(authority, {
    identity: { role, name: "" },
    commonName: name,
    dnsNames: ["localhost"],
    ipAddresses: ["127.0.0.1"],
    validDays: 1,
    usages: ["server", "client"],
  });
  writeFileSync(join(folder, "ca.pem"), authority.certPem);
  writeFileSync(join(folder, `${name}.pem`), issued.certPem);
  writeFileSync(join(folder, `${name}-key.pem`), issued.keyPem);
}

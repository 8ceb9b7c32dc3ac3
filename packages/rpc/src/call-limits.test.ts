import { setTimeout as delay } from "node:timers/promises";
import { CancelledError, ResourceExhaustedError, TimeoutError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import type { CallContext } from "./call/call-context.js";
import { abortReason, Bench, collect, deferred, eventually, type Note, rawClient } from "./testing/note-bench.js";

describe("limits of calls", () => {
  const bench = new Bench();
  before(() => bench.makeCertificates());
  afterEach(() => bench.closeAll());
  after(() => bench.remove());

  describe("limits", () => {
    it("refuse integers beyond 2^53 - 1 as an invalid argument, and give the reason only to callers with permission", async () => {
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
      await rejection(bench.client().get({ text: "", count: 0 }), ResourceExhaustedError);
    });

    it("refuse calls above maxConcurrentCalls with a retry time, and accept calls again later", async () => {
      const gate = deferred();
      let begun = 0;
      await bench.serve(
        {
          get: async (request) => {
            begun += 1;
            await gate.promise;
            return request;
          },
        },
        { limits: { maxConcurrentCalls: 2 } },
      );
      const client = bench.client();
      const running = [client.get({ text: "", count: 1 }), client.get({ text: "", count: 2 })];
      await eventually(async () => expect(begun).to.equal(2));
      const error = await rejection(client.get({ text: "", count: 3 }));
      expect(error)
        .to.be.instanceOf(ResourceExhaustedError)
        .and.include({ reason: "QUEUE_FULL", retryAfterMs: 200, outcome: "not_done" });
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
          if (request.text === "connect") return request;
          reasons.push(call.deadlineAtMs - Date.now());
          reasons.push(await abortReason(call));
          return request;
        },
      });
      const client = bench.client();
      await client.get({ text: "connect", count: 0 });
      // On a busy machine the deadline may pass before the call reaches the handler.
      await eventually(async () => {
        reasons.length = 0;
        const error = await rejection(client.get({ text: "", count: 0 }, { deadlineMs: 1_000 }), TimeoutError);
        expect(error.outcome).to.equal("unknown");
        expect(reasons).not.to.deep.equal([]);
      });
      await eventually(async () => expect(reasons).to.have.length(2));
      expect(reasons[0]).to.be.within(1, 1_000);
      // The client's clock started first, so its cancellation mostly arrives before the server's own timer fires.
      expect((reasons[1] as Error).name).to.be.oneOf(["TimeoutError", "CancelledError"]);
    });

    it("ends calls at the server's own limit when the client set no deadline or a longer one", async () => {
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
        // On a busy machine the limit may pass before the message, which follows the headers, has arrived.
        for (const headers of [undefined, { "grpc-timeout": "60S" }])
          await eventually(async () => {
            const before = reasons.length;
            const startedMs = performance.now();
            expect(await raw("/test.v1.NoteService/Get", Buffer.alloc(0), headers)).to.deep.include({ code: 4 });
            expect(performance.now() - startedMs).to.be.within(90, 30_000);
            expect(reasons).to.have.length(before + 1);
          });
        for (const reason of reasons) expect(reason).to.be.instanceOf(TimeoutError);
        expect(reasons).to.have.length(2);
      } finally {
        close();
      }
    });

    it("sets no deadline for streams", async () => {
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
    it("aborts the handler of each kind of method, with the reason", async () => {
      const reasons: Record<string, unknown> = {};
      const begun = new Set<string>();
      await bench.serve({
        get: async (request, call) => {
          begun.add("get");
          reasons.get = await abortReason(call);
          return request;
        },
        async *list(request, call) {
          begun.add("list");
          yield request;
          reasons.list = await abortReason(call);
        },
        async add(requests, call) {
          try {
            for await (const _request of requests) begun.add("add");
          } catch (error) {
            reasons.addRequests = error;
          }
          reasons.add = await abortReason(call);
          return { text: "", count: 0 };
        },
      });
      const client = bench.client();
      const cancelling = new AbortController();
      const { signal } = cancelling;
      const get = rejection(client.get({ text: "", count: 0 }, { signal }));
      const list = rejection(collect(client.list({ text: "", count: 0 }, { signal })));
      const add = rejection(client.add(endless(), { signal }));
      await eventually(async () => expect(begun.size).to.equal(3));
      cancelling.abort(new Error("enough"));
      for (const error of await Promise.all([get, list, add])) {
        expect(error).to.be.instanceOf(CancelledError);
        expect(error.message).to.contain("enough");
      }
      await eventually(async () => {
        for (const name of ["get", "list", "add", "addRequests"])
          expect(reasons[name], name).to.be.instanceOf(CancelledError);
      });
    });

    it("is never taken by the handler for the end of the requests", async () => {
      const ends: unknown[] = [];
      let begun = 0;
      await bench.serve({
        async add(requests) {
          begun += 1;
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
      await eventually(async () => expect(ends.length).to.equal(begun).and.to.be.above(0));
      expect(new Set(ends)).to.deep.equal(new Set(["CancelledError"]));
    });

    it("occurs when the caller stops reading", async () => {
      let reason: unknown;
      await bench.serve({
        async *list(request, call) {
          yield request;
          reason = await abortReason(call);
        },
      });
      for await (const _note of bench.client().list({ text: "", count: 0 })) break;
      await eventually(async () => expect(reason).to.be.instanceOf(CancelledError));
    });

    it("refuses a call whose signal is already aborted", async () => {
      await bench.serve();
      await rejection(bench.client().get({ text: "", count: 0 }, { signal: AbortSignal.abort() }), CancelledError);
    });
  });
});

async function* endless(): AsyncGenerator<Note> {
  yield { text: "x", count: 1 };
  await new Promise(() => {});
}

import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import {
  InvalidStateError,
  NotFoundError,
  OutdatedError,
  PermissionDeniedError,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createDevelopmentCertificates } from "@diskmesh/pki";
import { expect } from "chai";
import { Bench, collect, type Note } from "./testing/note-bench.js";

describe("calls", () => {
  const bench = new Bench();
  before(() => bench.makeCertificates());
  afterEach(() => bench.closeAll());
  after(() => bench.remove());

  describe("calls", () => {
    it("serve all three kinds of method", async () => {
      await bench.serve();
      const client = bench.client();
      expect(await client.get({ text: "a", count: 7 })).to.deep.equal({ text: "a", count: 7 });
      expect(await collect(client.list({ text: "b", count: 3 }))).to.deep.equal(
        [1, 2, 3].map((count) => ({ text: "b", count })),
      );
      expect(await client.add(notes("x", "y"))).to.deep.equal({ text: "xy", count: 3 });
    });

    it("complete a request with the defaults of missing fields, in all three kinds", async () => {
      await bench.serve();
      const client = bench.client();
      const partial = async function* () {
        yield { text: "x" };
      };
      expect(await client.get({ text: "a" })).to.deep.equal({ text: "a", count: 0 });
      expect(await collect(client.list({ count: 1 }))).to.deep.equal([{ text: "", count: 1 }]);
      expect(await client.add(partial())).to.deep.equal({ text: "x", count: 0 });
    });

    it("give the handler the caller's identity from the client certificate", async () => {
      const seen: unknown[] = [];
      await bench.serve(
        {
          get: async (request, call) => {
            seen.push(call.identity, call.requestId);
            return request;
          },
        },
        { roles: { get: ["disk-agent", "director"], list: [], add: [] } },
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

    it("stream many responses without holding all of them in memory", async () => {
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
    it("of a role that is not allowed are refused, with the allowed roles", async () => {
      await bench.serve();
      const error = await rejection(
        bench.client({ tls: bench.files("disk-agent-host-1") }).get({ text: "", count: 0 }),
        PermissionDeniedError,
      );
      expect(error.message).to.equal(
        "disk-agent host-1 may not call /test.v1.NoteService/Get: allowed are operator, director",
      );
      expect(bench.failures[0]).to.include({ method: "/test.v1.NoteService/Get", status: "PERMISSION_DENIED" });
    });

    it("are refused by method", async () => {
      await bench.serve({}, { roles: { get: ["operator"], list: [], add: ["director"] } });
      const client = bench.client();
      await client.get({ text: "", count: 0 });
      await rejection(collect(client.list({ text: "", count: 1 })), PermissionDeniedError);
      await rejection(client.add(notes()), PermissionDeniedError);
    });

    it("with a scope are refused by every method that does not keep to scopes", async () => {
      await bench.serve({}, { roles: ["csi", "operator-disks"], scoped: new Set(["get"]) });
      for (const role of ["csi", "operator-disks"] as const)
        for (const name of ["", "web"]) {
          const client = bench.client({ tls: await bench.filesOf({ role, name }) });
          await client.get({ text: "", count: 0 });
          const added = client.add(notes());
          if (name === "") await added;
          else
            expect((await rejection(added, PermissionDeniedError)).message).to.equal(
              `${role} web may not call /test.v1.NoteService/Add: its rights end at a scope, which this method does not have`,
            );
        }
    });

    it("with a certificate of another authority are refused", async () => {
      await bench.serve();
      const foreign = join(bench.folder, "foreign");
      await createDevelopmentCertificates(foreign, { hostIds: [] });
      const tls = { ...bench.files("operator", foreign), caFile: bench.files("operator").caFile };
      await rejection(bench.client({ tls }).get({ text: "", count: 0 }), UnavailableError);
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
      const outdated = await rejection(client.get({ text: "outdated", count: 0 }), OutdatedError);
      expect(outdated).to.deep.include({ message: "too old", about: { device_id: "d-1" }, outcome: "not_done" });
      expect(await rejection(client.get({ text: "state", count: 0 })))
        .to.be.instanceOf(InvalidStateError)
        .and.include({ retryAfterMs: 1500 });
      expect((await rejection(client.get({ text: "odd", count: 0 }))).message).to.equal('no \ufffd disk \u00fc "\n');
      expect(await rejection(client.get({ text: "", count: 0 })))
        .to.be.instanceOf(UnavailableError)
        .and.deep.include({ outcome: "unknown", about: {} });
    });

    it("that are bugs give the client only the request id, and the log everything", async () => {
      const bug = new TypeError("secret is undefined");
      const broken = () => Promise.reject(bug);
      await bench.serve({
        get: broken,
        add: broken,
        list: () => {
          throw bug;
        },
      });
      const client = bench.client();
      for (const run of [
        () => client.get({ text: "", count: 0 }),
        () => collect(client.list({ text: "", count: 0 })),
        () => client.add(notes("x")),
      ]) {
        const error = await rejection(run());
        expect(error).to.be.instanceOf(UnavailableError).and.include({ outcome: "unknown" });
        expect(error.message)
          .to.match(/request id [0-9a-f]{8}-\d+$/)
          .and.not.contain("secret");
        expect(bench.failures.at(-1)).to.include({ status: "INTERNAL", error: bug, unexpected: true });
      }
    });

    it("of answers that cannot be encoded count as bugs", async () => {
      const odd = { text: "", count: 2 ** 60 };
      await bench.serve({
        get: async () => odd,
        async *list() {
          yield odd;
        },
      });
      for (const run of [
        () => bench.client().get({ text: "", count: 0 }),
        () => collect(bench.client().list({ text: "", count: 0 })),
      ]) {
        await rejection(run, Error, /request id/);
        expect(bench.failures.at(-1)).to.include({ status: "INTERNAL", unexpected: true });
      }
    });

    it("end a stream after the values yielded before", async () => {
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

    it("of an iterable that the client sends are thrown to the caller", async () => {
      await bench.serve();
      async function* broken(): AsyncGenerator<Note> {
        yield { text: "x", count: 1 };
        throw new NotFoundError("no more notes");
      }
      expect((await rejection(bench.client().add(broken()))).message).to.equal("no more notes");
    });
  });
});

async function* notes(...texts: string[]): AsyncGenerator<Note> {
  for (const [index, text] of texts.entries()) yield { text, count: index + 1 };
}

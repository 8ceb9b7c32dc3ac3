import { setTimeout as delay } from "node:timers/promises";
import { UnavailableError } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { table } from "../documents/schema.js";
import { Tablet } from "../tablet.js";
import type { DocumentServer } from "./document-server.js";
import { MongoStorage } from "./mongo-storage.js";
import { changed } from "./simulation/candidate.js";
import { idealServer } from "./testing/ideal-server.js";

const schema = { hosts: table<{ id: string; n: number }>()({ key: ({ id }) => id }) };
const HOSTS = 250;
const VIEW = "registry.hosts";
const [OFTEN_MS, NEVER_MS] = [10, 1e9];

describe("a manually edited view", () => {
  let server: DocumentServer;
  let reports: string[];

  beforeEach(() => {
    server = idealServer();
    reports = [];
  });

  function open(checkIntervalMs: number, leaseTimeMs = 4_000, signal?: AbortSignal): Promise<Tablet<typeof schema>> {
    const limits = { checkIntervalMs, leaseTimeMs, applyIntervalMs: 1, keptLogMs: 0 };
    const storage = new MongoStorage({ tabletName: "registry", connect: async () => changed(server, {}), limits });
    const onEdited = (text: string): unknown => reports.push(text);
    return Tablet.open({ name: "registry", schema, storage, address: "127.0.0.1:1", onEdited, signal });
  }

  async function openFilled(checkIntervalMs: number): Promise<Tablet<typeof schema>> {
    const tablet = await open(checkIntervalMs);
    await tablet.transact(({ hosts }) => {
      for (let n = 0; n < HOSTS; n++) hosts.put({ id: `h${n}`, n });
    });
    await eventually(async () => expect(await view()).to.have.length(HOSTS));
    return tablet;
  }

  async function view(): Promise<readonly object[]> {
    const found = await server.find(VIEW, { limit: 10 * HOSTS });
    return found.map(({ _id, _seq, id, n }) => ({ _id, id, n, isNumbered: (_seq as number) > 0 }));
  }

  const remove = (collection: string, id: string) =>
    server.delete(collection, {
      after: `${id.slice(0, -1)}${String.fromCharCode(id.charCodeAt(id.length - 1) - 1)}~`,
      below: `${id}!`,
    });
  const set = (id: string, fields: object) => server.update(VIEW, id, {}, { set: { ...fields }, increment: "edits" });

  const edits: Readonly<Record<string, { edit: () => Promise<unknown>; named: string }>> = {
    "a changed document": { edit: () => set("h7", { n: -1 }), named: '"h7"' },
    "a document whose number was lowered": { edit: () => set("h7", { _seq: 0 }), named: '"h7"' },
    "a document whose number was removed": { edit: () => set("h7", { _seq: undefined }), named: '"h7"' },
    "a deleted document": { edit: () => remove(VIEW, "h240"), named: '"h240"' },
    "a document that was added": { edit: () => server.insert(VIEW, { _id: "other", n: 1 }), named: '"other"' },
    "everything deleted": { edit: () => server.delete(VIEW, {}), named: "and 90 more" },
    "the format deleted": { edit: () => server.delete("registry.format", {}), named: '"store"' },
  };
  for (const [title, { edit, named }] of Object.entries(edits)) {
    it(`is repaired by its leader: ${title}`, async () => {
      const before = await openFilled(OFTEN_MS);
      const whole = await view();
      await edit();
      await eventually(() => expect(reports.join()).to.contain(named).and.to.contain("again from memory"));
      await eventually(async () => expect(await view()).to.deep.equal(whole));
      await before.close();
      await using next = await open(NEVER_MS);
      expect(await next.read(({ hosts }) => hosts.size)).to.equal(HOSTS);
    });

    it(`is reported by a standby: ${title}`, async () => {
      await using _leader = await openFilled(NEVER_MS);
      const stop = new AbortController();
      const standby = open(OFTEN_MS, 4_000, stop.signal).catch((error) => error);
      await delay(1_000);
      await edit();
      await eventually(() => expect(reports.join()).to.contain(named).and.to.contain("at its next check"));
      stop.abort(new UnavailableError("stopped"));
      await standby;
    });
  }

  it("is reported by a standby that starts afterwards", async () => {
    await using _leader = await openFilled(NEVER_MS);
    for (const edit of [() => remove(VIEW, "h7"), () => set("h9", { n: -1 })]) {
      await edit();
      reports.splice(0);
      const stop = new AbortController();
      const standby = open(OFTEN_MS, 4_000, stop.signal).catch((error) => error);
      await eventually(() => expect(reports.join()).to.contain("hosts").and.to.contain("keep the leader running"));
      expect(reports.join()).not.to.contain("restore a backup");
      stop.abort(new UnavailableError("stopped"));
      await standby;
    }
  });

  it("is reported with the cure when the leader cannot replace the edited document", async () => {
    await using _leader = await openFilled(OFTEN_MS);
    const whole = await view();
    await set("h7", { _seq: 1e9 });
    await eventually(() => expect(reports.join()).to.contain('"h7"').and.to.contain("delete them"));
    await remove(VIEW, "h7");
    await eventually(async () => expect(await view()).to.deep.equal(whole));
  });

  it("is not reported while only its leader changes it", async () => {
    await using leader = await openFilled(OFTEN_MS);
    const stop = new AbortController();
    const standby = open(OFTEN_MS, 4_000, stop.signal).catch((error) => error);
    for (let n = 0; n < 500; n++) {
      await leader.transact(({ hosts }) => {
        if (n % 3 === 0) hosts.delete(`h${n % 50}`);
        else hosts.put({ id: `h${n % 50}`, n });
      });
    }
    stop.abort(new UnavailableError("stopped"));
    await standby;
    expect(reports).to.deep.equal([]);
  });
});

import { setTimeout as delay } from "node:timers/promises";
import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, leaveToVerify, skipBecause } from "@diskmesh/testkit";
import { expect } from "chai";
import { table } from "../documents/schema.js";
import type { ClaimOptions } from "../storage/storage.js";
import { Tablet } from "../tablet.js";
import { DEFAULT_MONGO_LIMITS } from "./mongo-storage.js";
import { openMongoStorage } from "./open-mongo.js";
import { type DatabaseProcess, type DocumentDatabase, documentDatabase } from "./testing/document-database.js";
import { databaseUrl, newTabletName, removeTablet, withDatabase } from "./testing/test-location.js";

interface Counter {
  readonly id: string;
  readonly n: number;
}

const schema = { counters: table<Counter>()({ key: ({ id }) => id, queries: [["n", "id"]] }) };
type CounterTablet = Tablet<typeof schema>;

/** Generous, because a busy machine delays renewals. */
const LEASE_TIME_MS = 3_000;
/** Long enough that no test waits for it to expire. */
const LONG_LEASE_TIME_MS = 600_000;

describe("a tablet on MongoDB", () => {
  let server: DocumentDatabase;
  let url: string;
  let tabletName: string;
  let opened: CounterTablet[];

  before(async function () {
    const found = await documentDatabase();
    if (typeof found === "string") return skipBecause(this, found);
    server = found;
    url = databaseUrl(server.url);
  });

  beforeEach(() => {
    tabletName = newTabletName();
    opened = [];
  });

  afterEach(async () => {
    await Promise.all(opened.map((tablet) => tablet.close()));
    await removeTablet(url, tabletName);
  });

  async function open(
    waiting: Omit<ClaimOptions, "schema"> = {},
    {
      leaseTimeMs = LEASE_TIME_MS,
      keptLogMs = DEFAULT_MONGO_LIMITS.keptLogMs,
      checkIntervalMs = DEFAULT_MONGO_LIMITS.checkIntervalMs,
    } = {},
  ): Promise<CounterTablet> {
    const limits = { leaseTimeMs, safeLeaseTimeMs: leaseTimeMs * 0.8, keptLogMs, checkIntervalMs };
    const storage = openMongoStorage({ url, tabletName, limits });
    const renewIntervalMs = LEASE_TIME_MS / 5;
    const tablet = await Tablet.open({
      name: tabletName,
      schema,
      storage,
      address: "127.0.0.1:1",
      limits: { renewIntervalMs, commitTimeoutMs: 60_000 },
      ...waiting,
    });
    opened.push(tablet);
    return tablet;
  }

  function put(tablet: CounterTablet, id: string, n: number): Promise<void> {
    return tablet.transact(({ counters }) => counters.put({ id, n }));
  }

  function numberOf(tablet: CounterTablet, id: string): Promise<number | undefined> {
    return tablet.read(({ counters }) => counters.get(id)?.n);
  }

  it("keeps a view for queries, and in its log only entries that are recent or not in the view", async () => {
    const tablet = await open({}, { keptLogMs: 0 });
    await put(tablet, "a", 1);
    await put(tablet, "b", 2);
    await tablet.transact(({ counters }) => counters.delete("a"));
    await withDatabase(url, async (database) => {
      const view = database.collection<Counter & { _id: string }>(`${tabletName}.counters`);
      const log = database.collection<{ _id: number; kind: string; upTo?: number }>(`${tabletName}.log`);
      await eventually(async () => {
        const documents = await view.find().toArray();
        expect(documents.map(({ _id, id, n }) => ({ _id, id, n }))).to.deep.equal([{ _id: "b", id: "b", n: 2 }]);
        const entries = await log.find().sort({ _id: 1 }).toArray();
        const kinds = entries.map(({ kind }) => kind);
        expect(kinds.slice(0, 2)).to.deep.equal(["claim", "load"]);
        // Checkpoints made while the last commits arrived may lag behind them.
        expect(new Set(kinds.slice(2))).to.deep.equal(new Set(["checkpoint"]));
        const upTo = entries.at(-1)?.upTo ?? 0;
        expect(entries.slice(2).filter(({ _id }) => _id <= upTo)).to.deep.equal([]);
      });
    });
  });

  it("creates an index for a query, once", async () => {
    await (await open()).close();
    const tablet = await open();
    await put(tablet, "a", 1);
    await withDatabase(url, async (database) => {
      const view = database.collection(`${tabletName}.counters`);
      await eventually(async () => {
        const made = (await view.indexes()).map(({ key, unique }) => ({ key, unique: unique === true }));
        expect(made.filter(({ key }) => !("_id" in key))).to.deep.equal([{ key: { n: 1, id: 1 }, unique: false }]);
      });
    });
  });

  it("continues when a foreign unique index refuses its view: reports it, makes no claim, and catches up once the index is gone", async function () {
    leaveToVerify(this);
    const troubles: (string | undefined)[] = [];
    const tablet = await open({ onTrouble: (trouble) => troubles.push(trouble) });
    await put(tablet, "a", 1);
    await withDatabase(url, async (database) => {
      const view = database.collection(`${tabletName}.counters`);
      const log = database.collection(`${tabletName}.log`);
      await eventually(async () => expect(await view.countDocuments()).to.equal(1));
      const index = await view.createIndex({ n: 1 }, { unique: true });
      await put(tablet, "b", 1);
      await eventually(() => troubles.length > 0);
      expect(troubles[0])
        .to.contain("unique index")
        .and.to.contain(`${tabletName}.counters`)
        .and.to.contain("no data is lost");
      for (let n = 2; n < 10; n++) await put(tablet, "c", n);
      expect(await log.countDocuments({ kind: "claim" }), "claims").to.equal(1);
      await view.dropIndex(index);
      await eventually(async () => expect(await view.countDocuments()).to.equal(3));
      await eventually(() => expect(troubles.at(-1)).to.equal(undefined));
      expect(troubles).to.have.length(2);
    });
  });

  it("restores documents that somebody edits in its collections", async () => {
    const reports: string[] = [];
    const onEdited = (text: string): unknown => reports.push(text);
    const tablet = await open({ onEdited }, { checkIntervalMs: 100 });
    for (const id of ["a", "b", "c", "d"]) await put(tablet, id, 1);
    await withDatabase(url, async (database) => {
      const view = database.collection<{ _id: string }>(`${tabletName}.counters`);
      const shown = async () => (await view.find().sort({ _id: 1 }).toArray()).map(({ _id, ...rest }) => [_id, rest]);
      await eventually(async () => expect(await view.countDocuments()).to.equal(4));
      await view.updateOne({ _id: "a" }, { $set: { n: 2 } });
      await view.deleteOne({ _id: "b" });
      await view.replaceOne({ _id: "c" }, { n: 2 });
      await view.insertOne({ _id: "e" });
      await eventually(async () => {
        const found = await shown();
        expect(found.map(([id]) => id)).to.deep.equal(["a", "b", "c", "d"]);
        for (const [id, document] of found) expect(document).to.include({ id, n: 1 });
      });
      for (const id of ["a", "b", "c", "e"]) expect(reports.join()).to.contain(`"${id}"`);
    });
  });

  it("is handed over at once by a clean stop", async () => {
    const lease = { leaseTimeMs: LONG_LEASE_TIME_MS };
    const first = await open({}, lease);
    await put(first, "a", 1);
    await first.close();
    const second = await open({}, lease);
    expect(second.generation).to.equal(2);
    expect(second.id).to.equal(first.id);
    expect(await numberOf(second, "a")).to.equal(1);
  });

  describe("when its server", () => {
    let database: DatabaseProcess;

    before(function () {
      if (server.process === undefined) return skipBecause(this, "the server is not the tests' own, to stop and kill");
      database = server.process;
    });

    it("hangs, answers no read and sends no order once the lease may be another leader's, until the server continues", async () => {
      const tablet = await open();
      await put(tablet, "a", 1);
      database.signal("SIGSTOP");
      try {
        await delay(LEASE_TIME_MS);
        const notChanging = tablet.transact(({ counters }) => counters.get("a")?.n);
        for (const error of await Promise.all([rejection(numberOf(tablet, "a")), rejection(notChanging)])) {
          expect(error).to.be.instanceOf(UnavailableError);
          expect(error.message).to.contain("the lease ran out");
        }
        expect(() => tablet.checkMayAct()).to.throw(UnavailableError);
      } finally {
        database.signal("SIGCONT");
      }
      await eventually(async () => expect(await numberOf(tablet, "a")).to.equal(1));
      tablet.checkMayAct();
    });
  });
});

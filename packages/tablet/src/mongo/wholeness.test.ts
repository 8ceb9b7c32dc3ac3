import { InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { firstReleaseDatabase, firstReleaseDocuments } from "../testing/first-release.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import type { DocumentServer, StoredDocument } from "./document-server.js";
import { MongoStorage } from "./mongo-storage.js";
import { changed } from "./simulation/candidate.js";
import { idealServer } from "./testing/ideal-server.js";

const DEVICES = 20;
const LOG = "registry.log";
const VIEW = "registry.devices";

const device = (i: number, n: number) => ({
  table: "devices",
  key: `d${i}`,
  document: { deviceId: `d${i}`, attachState: n },
});

/** Some collections of a database, copied at one moment. */
type Dump = Readonly<Record<string, readonly StoredDocument[]>>;

describe("a copied or damaged database", () => {
  let server: DocumentServer;
  let writers = 0;

  beforeEach(async () => {
    writers = 0;
    server = idealServer();
    const storage = await lead(server);
    await storage.commit([{ table: "hosts", key: "h1", document: { hostId: "h1" } }]);
    await storage.commit(Array.from({ length: DEVICES }, (_, i) => device(i, 0)));
    await isApplied(storage);
  });

  async function lead(
    on: DocumentServer,
    onDocument?: (table: string, key: string, document: object) => void,
    name = "registry",
  ): Promise<TrackedStorage> {
    const limits = { leaseTimeMs: 0, applyIntervalMs: 1, keptLogMs: 0 };
    const connect = async () => changed(on, {});
    const storage = new TrackedStorage(new MongoStorage({ tabletName: name, connect, limits }));
    try {
      await storage.claim({ writer: `w${writers++}`, address: "127.0.0.1:1" });
      await storage.load(onDocument);
      return storage;
    } catch (error) {
      await storage.close({ handOver: true });
      throw error;
    }
  }

  /** Waits until the view contains everything, then stops the leader. */
  async function isApplied(storage: TrackedStorage): Promise<void> {
    await eventually(async () => {
      expect((await server.find(LOG, { kinds: ["commit"], limit: 10 })).length).to.equal(0);
    });
    await storage.close({ handOver: true });
  }

  async function dump(...collections: readonly string[]): Promise<Dump> {
    const found: Record<string, StoredDocument[]> = {};
    for (const collection of collections) found[collection] = await server.find(collection, { limit: 1_000 });
    return found;
  }

  async function restored(...dumps: readonly Dump[]): Promise<DocumentServer> {
    const copy = idealServer();
    for (const [collection, documents] of dumps.flatMap((each) => Object.entries(each))) {
      for (const document of documents) await copy.insert(collection, document);
    }
    return copy;
  }

  async function expectRefusal(on: DocumentServer, ...reasons: readonly string[]): Promise<void> {
    const error = await rejection(lead(on), InvalidStateError);
    for (const reason of ["MongoDB at simulation", "restore a backup", ...reasons]) {
      expect(error.message).to.contain(reason);
    }
  }

  const everything = [LOG, VIEW, "registry.hosts", "registry.format"];

  it("is served when it was copied completely", async () => {
    const loaded: string[] = [];
    await (await lead(await restored(await dump(...everything)), (_, key) => loaded.push(key))).close({
      handOver: true,
    });
    expect(loaded.length).to.equal(DEVICES + 1);
  });

  it("is served by a server that keeps fields in another order", async () => {
    const copy = await dump(...everything);
    const turned = (copy[VIEW] ?? []).map(
      (each) => Object.fromEntries(Object.entries(each).reverse()) as StoredDocument,
    );
    const keys: string[] = [];
    const storage = await lead(await restored({ ...copy, [VIEW]: turned }), (_, key) => keys.push(key));
    expect(keys.length).to.equal(DEVICES + 1);
    // The replaced document's checksum is subtracted and must not depend on the order of its fields.
    await storage.commit(Array.from({ length: DEVICES }, (_, i) => device(i, 1)));
    await storage.close({ handOver: true });
  });

  it("is refused without a collection of its view", async () => {
    await expectRefusal(
      await restored(await dump(LOG, "registry.hosts", "registry.format")),
      `table devices has 0 of ${DEVICES} documents: ${DEVICES} missing`,
    );
  });

  it("is refused with an edited document, by its name", async () => {
    const copy = await dump(...everything);
    const edited = (copy[VIEW] ?? []).map((each) => (each._id === "d3" ? { ...each, attachState: -1 } : each));
    await expectRefusal(
      await restored({ ...copy, [VIEW]: edited }),
      '"d3" of table devices',
      "changed by a program other than diskmesh",
    );
  });

  it("is refused with a document written without a checksum, or a deleted one", async () => {
    const copy = await dump(...everything);
    const edited = (copy[VIEW] ?? []).map((each) => {
      const { _sum, ...document } = each;
      return each._id === "d3" ? { ...document, attachState: -1 } : each;
    });
    await expectRefusal(await restored({ ...copy, [VIEW]: edited }), '"d3" of table devices was changed by a program');
    const fewer = (copy[VIEW] ?? []).filter(({ _id }) => _id !== "d3");
    await expectRefusal(await restored({ ...copy, [VIEW]: fewer }), "table devices has 19 of 20 documents: 1 missing");
  });

  it("is refused when its last log entry lost its sums, or its claim a field", async () => {
    const copy = await dump(...everything);
    const without = (field: string, kind: string) =>
      restored({
        ...copy,
        [LOG]: (copy[LOG] ?? []).map((entry) => {
          const { [field]: _, ...rest } = entry;
          return entry.kind === kind ? (rest as StoredDocument) : entry;
        }),
      });
    await expectRefusal(await without("sums", "checkpoint"), "its last log entry has no sums");
    await expectRefusal(await without("incarnation", "claim"), "does not begin with a claim of its incarnation");
    await expectRefusal(await without("firstNumber", "claim"), "does not begin with a claim of its incarnation");
  });

  it("is refused when its log was copied before its view, and the other way round", async () => {
    const before = { log: await dump(LOG), view: await dump(VIEW) };
    const rest = await dump("registry.hosts", "registry.format");
    const storage = await lead(server);
    await storage.commit(Array.from({ length: DEVICES }, (_, i) => device(i, 1)));
    await isApplied(storage);
    const after = { log: await dump(LOG), view: await dump(VIEW) };
    await expectRefusal(
      await restored(rest, before.log, after.view),
      "table devices has 20 documents as expected, but",
    );
    await expectRefusal(
      await restored(rest, after.log, before.view),
      "table devices has 20 documents as expected, but",
    );
  });

  it("is refused with a document that is newer than its log", async () => {
    const before = await dump(...everything);
    const storage = await lead(server);
    // The final state is the same; only the log number differs.
    for (const n of [1, 0]) await storage.commit([device(3, n)]);
    await isApplied(storage);
    const copy = await restored({ ...before, [VIEW]: (await dump(VIEW))[VIEW] as readonly StoredDocument[] });
    await expectRefusal(copy, 'document "d3" of table devices has number', "of this process's claim");
  });

  it("is refused without its log, and taken for new only when it is completely empty", async () => {
    await expectRefusal(
      await restored(await dump(VIEW)),
      "its log, registry.log, is missing, although registry.devices shows that it existed",
    );
    await (await lead(idealServer())).close({ handOver: true });
  });

  it("is detected by its leader at the next renewal", async () => {
    const storage = await lead(server);
    await storage.renew();
    await storage.commit([device(1, 5)]);
    await storage.claimAbove(10);
    await storage.renew();
    await server.delete(LOG, {});
    await storage.commit([device(1, 6)]);
    const error = await rejection(storage.renew());
    await storage.close({ handOver: true });
    expect(error).to.be.instanceOf(InvalidStateError);
    expect(error.message)
      .to.contain("registry.log")
      .and.to.contain("was deleted or replaced while this process was the leader");
    await expectRefusal(server, "registry.log", "does not begin with a claim");
  });

  it("is distinguished from a newer format before anything is written", async () => {
    const [first] = await server.find(LOG, { limit: 1 });
    const [last] = await server.find(LOG, { limit: 1, descending: true });
    const { _id, generation } = last as StoredDocument & { _id: number; generation: number };
    const newer = {
      _id: _id + 1,
      writer: "newer",
      generation: generation + 1,
      previousGeneration: generation,
      format: 3,
    };
    await server.insert(LOG, { ...first, ...newer });
    const error = await rejection(lead(server), InvalidStateError);
    expect(error.message).to.contain("written by a newer diskmesh").and.to.contain("format is 3");
    expect((await server.find(LOG, { limit: 1, descending: true }))[0]?._id).to.equal(_id + 1);
  });

  describe("of 0.1.0", () => {
    it("is loaded, and complete from then on", async () => {
      for (const name of ["registry", "director"] as const) {
        const old = idealServer();
        for (const { collection, document } of firstReleaseDatabase(name)) await old.insert(collection, document);
        const loaded: unknown[] = [];
        const storage = await lead(old, (table, key, document) => loaded.push({ table, key, document }), name);
        expect(loaded).to.have.deep.members(firstReleaseDocuments(name));
        await storage.close({ handOver: true });
        loaded.splice(0);
        const again = await lead(old, (table, key, document) => loaded.push({ table, key, document }), name);
        expect(loaded).to.have.deep.members(firstReleaseDocuments(name));
        await eventually(async () => {
          expect((await old.find(`${name}.log`, { kinds: ["commit"], limit: 10 })).length).to.equal(0);
        });
        await again.close({ handOver: true });
        await old.delete(`${name}.counters`, {});
        const error = await rejection(lead(old, undefined, name));
        expect(error.message).to.match(/table counters has 0 of \d documents: \d missing/);
      }
    });

    it("is refused when a document lost its checksum", async () => {
      const old = idealServer();
      for (const { collection, document } of firstReleaseDatabase("director")) {
        const { _sum, ...unchecked } = document;
        await old.insert(collection, collection === "director.instances" ? unchecked : document);
      }
      const error = await rejection(lead(old, undefined, "director"), InvalidStateError);
      expect(error.message).to.contain("of table instances was changed by a program other than diskmesh");
    });
  });

  describe("names its format", () => {
    it("in a table of the view, and in the log that a standby follows", async () => {
      const [document] = await server.find("registry.format", { limit: 10 });
      expect(document).to.include({ _id: "store", format: 2 });
      const fresh = idealServer();
      // Recorded on insertion, because an entry is deleted from the log once it is in the view.
      const entries: StoredDocument[] = [];
      const noting = changed(fresh, {
        insert: (collection, entry) => {
          if (collection === LOG && entry.kind === "commit") entries.push(entry);
          return fresh.insert(collection, entry);
        },
      });
      await (await lead(noting)).close({ handOver: true });
      expect(entries.map(({ changes }) => (changes as { table: string }[])[0]?.table)).to.deep.equal(["format"]);
    });
  });
});

import { InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { randomOf } from "../contract/random.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import type { DocumentServer, StoredDocument } from "./document-server.js";
import { decodeDocument, encodeDocument } from "./encoding.js";
import { leftoverTest } from "./followed-state.js";
import { MongoStorage } from "./mongo-storage.js";
import { changed } from "./simulation/candidate.js";
import { idealServer } from "./testing/ideal-server.js";

describe("leftovers", () => {
  it("have numbers strictly between a load's checkpoint and its claim", () => {
    const isLeftover = leftoverTest([{ from: 3, claim: 7 }], 1);
    expect([2, 3, 4, 6, 7, 8].map(isLeftover)).to.deep.equal([false, false, true, true, false, false]);
  });

  it("are the same numbers, however many loads there were", () => {
    const random = randomOf(7);
    for (let round = 0; round < 200; round++) {
      const loads = Array.from({ length: Math.floor(random() * 8) }, () => {
        const from = Math.floor(random() * 40);
        return { from, claim: from + 1 + Math.floor(random() * 8) };
      });
      const isLeftover = leftoverTest(loads, 1);
      for (let seq = 0; seq < 50; seq++) {
        const expected = loads.some(({ from, claim }) => seq > from && seq < claim);
        expect(isLeftover(seq), `${seq} of ${JSON.stringify(loads)}`).to.equal(expected);
      }
    }
  });

  it("of a dead leader are not loaded, and are removed from the view", async () => {
    const server = idealServer();
    const first = await lead(server);
    await first.commit([{ table: "hosts", key: "a", document: { n: 1 } }]);
    const second = await lead(server);
    await eventually(async () => expect(await view(server)).to.deep.equal(["a"]));
    await eventually(async () => expect((await log(server)).at(-1)?.kind).to.equal("checkpoint"));
    // Simulates a write of the first leader that arrives late.
    const seq = (await log(server)).find(({ kind, generation }) => kind === "claim" && generation === 2)?._id as number;
    await server.write("registry.hosts", [{ id: "late", seq: seq - 1, document: { n: 2 } }]);
    await second.close({ handOver: true });
    const loaded: string[] = [];
    const third = await lead(server, (key) => loaded.push(key));
    expect(loaded).to.deep.equal(["a"]);
    await eventually(async () => expect(await view(server)).to.deep.equal(["a"]));
    await Promise.all([first, third].map((storage) => storage.close({ handOver: true })));
  });

  it("are distinguished from documents that another program put into the view", async () => {
    const server = idealServer();
    await (await lead(server)).close({ handOver: true });
    await server.insert("registry.hosts", { _id: "foreign" });
    const storage = storageOn(server);
    await storage.claim({ writer: "w", address: "" });
    const error = await rejection(
      storage.load(() => {}),
      InvalidStateError,
    );
    expect(error.message).to.contain('_id "foreign"').and.to.contain("MongoDB at simulation");
    await storage.close({ handOver: true });
  });

  function storageOn(server: DocumentServer): TrackedStorage {
    return new TrackedStorage(
      new MongoStorage({
        tabletName: "registry",
        connect: async () => changed(server, {}),
        limits: { leaseTimeMs: 0, applyIntervalMs: 1 },
      }),
    );
  }

  let writers = 0;
  async function lead(server: DocumentServer, onKey: (key: string) => void = () => {}): Promise<TrackedStorage> {
    const storage = storageOn(server);
    await storage.claim({ writer: `writer-${writers++}`, address: "127.0.0.1:1" });
    await storage.load((_, key) => onKey(key));
    return storage;
  }

  async function view(server: DocumentServer): Promise<unknown[]> {
    return (await server.find("registry.hosts", { limit: 100 })).map(({ _id }) => _id);
  }

  function log(server: DocumentServer): Promise<StoredDocument[]> {
    return server.find("registry.log", { limit: 1_000 });
  }
});

describe("the encoding of documents", () => {
  it("stores plain documents as they are, for people to query", () => {
    const document = { hostId: "h1", nested: { list: [1, { a: null }], yes: true }, text: "Zürich \u0000" };
    const { fields, checksum } = encodeDocument("hosts", "h1", { document, version: 1 });
    const { _sum, ...plain } = fields;
    expect(plain).to.deep.equal(document);
    const decoded = decodeDocument("hosts", "h1", { _id: "h1", ...fields, _seq: 7 });
    expect(decoded).to.deep.equal({ document, version: 1, checksum, isIntact: true });
  });

  it("stores documents as JSON when MongoDB would refuse or change their names or strings", () => {
    const odd = [{ $set: 1 }, { "a.b": 1 }, { "": 1 }, { _id: 1 }, { a: { _bsontype: "x" } }, { a: ["\ud800"] }];
    for (const document of [...odd, JSON.parse('{"__proto__":1}')]) {
      const { fields } = encodeDocument("hosts", "h1", { document, version: 3 });
      expect(Object.keys(fields)).to.deep.equal(["_json", "_sum", "_version"]);
      const decoded = decodeDocument("hosts", "h1", { _id: "h1", ...fields, _seq: 7 });
      expect(decoded).to.deep.include({ document, version: 3, isIntact: true });
    }
  });
});

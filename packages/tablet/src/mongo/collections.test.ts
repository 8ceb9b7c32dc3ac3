import { InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { type Schema, table } from "../documents/schema.js";
import type { ClaimOptions } from "../storage/storage.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import type { DocumentServer } from "./document-server.js";
import { MongoStorage } from "./mongo-storage.js";
import { changed } from "./simulation/candidate.js";
import { idealServer } from "./testing/ideal-server.js";

const hosts = table<{ id: string }>()({ key: ({ id }) => id });
const schema: Schema = { hosts };
const COPY = "registry.hosts.backup_2025";

describe("collections in the database of a tablet", () => {
  let server: DocumentServer;
  let warnings: string[];
  let loaded: string[];

  beforeEach(async () => {
    [server, warnings, loaded] = [idealServer(), [], []];
    const first = await lead({ schema });
    await first.commit([{ table: "hosts", key: "a", document: { id: "a" } }]);
    await eventually(async () => expect(await server.get("registry.hosts", "a")).to.include({ id: "a" }));
    await first.close({ handOver: true });
    await server.insert(COPY, { _id: "a", id: "a" });
    loaded = [];
  });

  async function lead(options: ClaimOptions): Promise<TrackedStorage> {
    const limits = { leaseTimeMs: 0, applyIntervalMs: 1 };
    const connect = async (): Promise<DocumentServer> => changed(server, {});
    const storage = new TrackedStorage(new MongoStorage({ tabletName: "registry", connect, limits }));
    await storage.claim(
      { writer: `w${Math.random()}`, address: "" },
      { onWarning: (text) => warnings.push(text), ...options },
    );
    await storage
      .load((_, key) => loaded.push(key))
      .catch(async (error) => {
        await storage.close({ handOver: true });
        throw error;
      });
    return storage;
  }

  it("get indexes for queries, and work without indexes that the server refuses", async () => {
    const made: string[] = [];
    const inner = server;
    await inner.delete(COPY, {});
    server = changed(inner, {
      index: async (collection, fields) => {
        made.push(`${collection} ${fields.join()}`);
        if (made.length === 1) throw new InvalidStateError("too many indexes");
      },
    });
    const queries = [["state", "sinceMs"], ["az"]];
    const storage = await lead({ schema: { hosts: { ...hosts, queries }, disks: hosts } });
    await eventually(() => expect(made).to.deep.equal(["registry.hosts state,sinceMs", "registry.hosts az"]));
    const indexWarnings = warnings.filter((text) => text.includes("index"));
    expect(indexWarnings).to.have.length(1);
    expect(indexWarnings[0]).to.contain("queries of hosts by state, sinceMs").and.to.contain("too many indexes");
    await storage.commit([{ table: "hosts", key: "b", document: { id: "b" } }]);
    await storage.close({ handOver: true });
  });

  it("that belong to no table are not read, and are named in one warning per load", async () => {
    await server.insert("registry.old", { _id: "x", text: "by hand" });
    const storage = await lead({ schema });
    expect(loaded).to.deep.equal(["a"]);
    expect(warnings).to.have.length(1);
    expect(warnings[0]).to.contain(COPY).and.to.contain("registry.old").and.to.contain("MongoDB at simulation");
    await storage.close({ handOver: true });
    await (await lead({ schema })).close({ handOver: true });
    expect(warnings).to.have.length(2);
  });

  it("that belong to no table are kept when a restore replaces the tablet", async () => {
    const claim = { tabletId: "t", incarnation: "i", parentIncarnations: [], generation: 9 };
    const storage = await lead({ schema, restore: { ...claim, firstNumber: 100, replace: true } });
    await eventually(async () => expect(await server.get("registry.hosts", "a")).to.equal(undefined));
    expect(await server.get(COPY, "a")).to.deep.equal({ _id: "a", id: "a" });
    expect(loaded).to.deep.equal([]);
    await storage.close({ handOver: true });
  });

  it("that belong to no table do not prevent a new tablet", async () => {
    server = idealServer();
    await server.insert(COPY, { _id: "a", id: "a" });
    await (await lead({ schema })).close({ handOver: true });
    expect(warnings[0]).to.contain(COPY);
  });

  it("of tables that this version does not know are refused", async () => {
    const error = await rejection(lead({ schema: { disks: hosts } }), InvalidStateError);
    expect(error.message).to.contain('table "hosts" is unknown to this version').and.contain("run the version");
    expect(warnings).to.deep.equal([]);
  });
});

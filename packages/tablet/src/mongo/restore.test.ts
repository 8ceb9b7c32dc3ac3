import { FencedError, InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { firstNumberAfter, restoredClaim } from "../backup/restore.js";
import type { Claim } from "../storage/storage.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import type { DocumentServer, StoredDocument } from "./document-server.js";
import { MongoStorage } from "./mongo-storage.js";
import { changed } from "./simulation/candidate.js";
import { idealServer } from "./testing/ideal-server.js";

const LOG = "registry.log";
const VIEW = "registry.hosts";
const FIRST_NUMBER = 2 ** 40;
const RESTORED = { a: { n: 0 }, b: { n: 0 } };

const host = (key: string, n: number) => ({ table: "hosts", key, document: { n } });

interface Led {
  readonly storage: TrackedStorage;
  readonly claim: Claim;
  readonly loaded: Record<string, object>;
}

describe("a restore on MongoDB", () => {
  let server: DocumentServer;
  let writers: number;

  beforeEach(() => {
    server = idealServer();
    writers = 0;
  });

  function newStorage(): TrackedStorage {
    const limits = { leaseTimeMs: 0, applyIntervalMs: 1, keptLogMs: 0 };
    return new TrackedStorage(
      new MongoStorage({ tabletName: "registry", connect: async () => changed(server, {}), limits }),
    );
  }

  async function lead(): Promise<Led> {
    const storage = newStorage();
    const claim = await storage.claim({ writer: `w${writers++}`, address: "127.0.0.1:1" });
    const loaded: Record<string, object> = {};
    await storage.load((_, key, document) => {
      loaded[key] = document;
    });
    return { storage, claim, loaded };
  }

  async function beginRestore(backedUp: Claim, replace: boolean): Promise<TrackedStorage> {
    const storage = newStorage();
    const restore = { ...restoredClaim(backedUp, `life-${writers}`), replace, firstNumber: FIRST_NUMBER };
    await storage.claim({ writer: `w${writers++}`, address: "a restore" }, { restore });
    await storage.load();
    await storage.commit([host("a", 0), host("b", 0)]);
    return storage;
  }

  /** Restores a backup of two hosts that was made under the given claim. */
  async function restore(backedUp: Claim, replace = true): Promise<number> {
    const storage = await beginRestore(backedUp, replace);
    const generation = await storage.claimAbove(1);
    await storage.close({ handOver: true });
    return generation;
  }

  async function expectRestored(): Promise<void> {
    const next = await lead();
    expect(next.loaded).to.deep.equal(RESTORED);
    await next.storage.commit([host("b", 59)]);
    await next.storage.close({ handOver: true });
    const last = await lead();
    expect(last.loaded).to.deep.equal({ ...RESTORED, b: { n: 59 } });
    await eventually(async () => expect((await server.find(VIEW, { limit: 100 })).length).to.equal(2));
    await last.storage.close({ handOver: true });
  }

  it("fences a leader that was only paused", async () => {
    const paused = await lead();
    for (let n = 1; n < 30; n++) await paused.storage.commit([host("a", n), host(`late-${n}`, n)]);
    await restore(paused.claim);
    await rejection(paused.storage.commit([host("a", 100)]), FencedError);
    await expectRestored();
  });

  it("protects its documents from a former leader's writes to the view that arrive later", async () => {
    const { storage, claim } = await lead();
    for (let n = 1; n < 30; n++) await storage.commit([host("a", n)]);
    await storage.close({ handOver: true });
    await restore(claim);
    await server.write(VIEW, [
      { id: "a", seq: 20, document: { n: -1 } },
      { id: "late", seq: 20, document: { n: -1 } },
    ]);
    await expectRestored();
  });

  it("takes a generation above those of the backup and of the database", async () => {
    const { storage, claim } = await lead();
    const highest = await storage.claimAbove(2 ** 40);
    await storage.close({ handOver: true });
    expect(await restore(claim)).to.be.above(highest + 2 ** 20);
    const other = { ...claim, generation: 2 ** 50 };
    expect(await restore(other)).to.be.above(2 ** 50 + 2 ** 20);
  });

  it("is refused into a database that is not empty unless it replaces the content", async () => {
    const { storage, claim } = await lead();
    await storage.close({ handOver: true });
    const before = await server.find(LOG, { limit: 100 });
    expect((await rejection(restore(claim, false), InvalidStateError)).message).to.contain("--replace");
    expect(await server.find(LOG, { limit: 100 })).to.deep.equal(before);
  });

  it("admits no leader while it is incomplete, and fences itself when it is repeated", async () => {
    const { storage, claim } = await lead();
    await storage.close({ handOver: true });
    const paused = await beginRestore(claim, true);
    expect((await rejection(lead(), InvalidStateError)).message).to.contain("a partly restored backup");
    await restore(claim);
    await rejection(paused.commit([host("a", 100)]), FencedError);
    await expectRestored();
  });

  it("is not disturbed by a claim that came too late, at a deleted number", async () => {
    const { storage, claim } = await lead();
    for (let n = 1; n < 5; n++) await storage.commit([host("a", n)]);
    const numberOf = async (): Promise<number> => {
      const [entry] = await server.find(LOG, { limit: 1, kinds: ["commit"] });
      return (entry?._id as number | undefined) ?? 0;
    };
    const number = await numberOf();
    await eventually(async () => expect(await numberOf()).not.to.equal(number));
    const late = { ...claim, _id: number, kind: "claim", writer: "late", generation: 2 ** 20, isRestore: true };
    await server.insert(LOG, { ...late, firstNumber: FIRST_NUMBER });
    await storage.close({ handOver: true });
    const next = await lead();
    expect(next.loaded).to.deep.equal({ a: { n: 4 } });
    await next.storage.close({ handOver: true });
  });

  it("admits no leader to an incarnation whose first claim another one has taken", async () => {
    const { storage, claim } = await lead();
    await storage.close({ handOver: true });
    const entries = await server.find(LOG, { limit: 100 });
    const [first] = entries.filter(({ kind }) => kind === "claim") as [StoredDocument];
    // The database was dropped, a restore was interrupted after its claim, and an entry for the dropped log arrived
    // late.
    server = idealServer();
    await server.insert(LOG, { ...first, _id: 24, generation: claim.generation + 1 });
    await server.insert(LOG, { ...first, incarnation: "another", isRestore: true, firstNumber: FIRST_NUMBER });
    expect((await rejection(lead(), InvalidStateError)).message).to.contain(
      "does not begin with a claim of its incarnation",
    );
  });

  const damages: Record<string, (last: StoredDocument) => Promise<unknown>> = {
    "lacks its log": async () => {
      const view = await server.find(VIEW, { limit: 100 });
      server = idealServer();
      for (const document of view) await server.insert(VIEW, document);
    },
    "lacks its first claim": () => server.delete(LOG, { below: 2 }),
    "is of a newer format": (last) => server.insert(LOG, { ...last, format: 3, kind: "claim" }),
    "has a document that is newer than its log": () => server.insert(VIEW, { _id: "newer", n: 1, _seq: 1_000 }),
    "has a document that was edited": () => server.insert(VIEW, { _id: "edited", n: 1, _sum: "none", _seq: 3 }),
  };
  for (const [what, damage] of Object.entries(damages)) {
    it(`replaces a database that ${what}`, async () => {
      const { storage, claim } = await lead();
      await storage.commit([host("c", 1)]);
      await eventually(async () => expect(await server.get(VIEW, "c")).to.include({ n: 1 }));
      await storage.close({ handOver: true });
      const [last] = (await server.find(LOG, { limit: 1, descending: true })) as [StoredDocument & { _id: number }];
      await damage({ ...last, _id: last._id + 1, generation: 7 });
      await rejection(lead(), InvalidStateError);
      await restore(claim);
      await expectRestored();
    });
  }

  it("begins the log above all numbers that it can have reached since the backup", () => {
    const nowMs = Date.UTC(2026, 0);
    const byClock = firstNumberAfter(undefined, nowMs);
    expect(byClock).to.be.above(2 ** 44);
    expect(firstNumberAfter(7, nowMs)).to.equal(byClock);
    expect(firstNumberAfter(byClock + 7, nowMs)).to.equal(byClock + 7 + 2 ** 32);
    expect(firstNumberAfter(byClock + 7, nowMs + 60_000)).to.be.above(byClock + 7);
  });
});

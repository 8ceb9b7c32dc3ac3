import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  FencedError,
  InvalidArgumentError,
  InvalidStateError,
  NotFoundError,
  ResourceExhaustedError,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { openLmdbStorage } from "./lmdb/lmdb-storage.js";
import { type Change, table } from "./schema.js";
import type { Claim, Leader, OnDocument, StoredChange, TabletStorage } from "./storage.js";
import { Tablet, type TabletLimits } from "./tablet.js";

interface Host {
  readonly hostId: string;
  readonly az: string;
  readonly text?: string;
}

const schema = { hosts: table<Host>()({ key: (host) => host.hostId, indexes: { byAz: (host) => host.az } }) };

/** LMDB behind a gate: commits wait while it is closed, and can be made to fail. */
class GatedStorage implements TabletStorage {
  readonly commits: (readonly Change[])[] = [];
  readonly closed: { handOver: boolean }[] = [];
  failWith: Error | undefined;
  renewError: Error | undefined;
  readonly #inner: TabletStorage;
  #gate: Promise<void> = Promise.resolve();
  #openGate: () => void = () => {};
  #answersOfClaims: Promise<void>[] = [];

  constructor(inner: TabletStorage) {
    this.#inner = inner;
  }

  stop(): void {
    this.#gate = new Promise((resolve) => {
      this.#openGate = resolve;
    });
  }

  go(): void {
    this.#openGate();
  }

  /** The next claim above a number is made at once, and answered when that resolves. */
  delayAnswerOfClaim(until: Promise<void>): void {
    this.#answersOfClaims.push(until);
  }

  claim(leader: Leader): Promise<Claim> {
    return this.#inner.claim(leader);
  }

  async claimAbove(generation: number): Promise<number> {
    const claimed = await this.#inner.claimAbove(generation);
    await this.#answersOfClaims.shift();
    return claimed;
  }

  load(onDocument: OnDocument): Promise<void> {
    return this.#inner.load(onDocument);
  }

  async commit(changes: readonly StoredChange[]): Promise<void> {
    this.commits.push(changes);
    await this.#gate;
    if (this.failWith !== undefined) throw this.failWith;
    await this.#inner.commit(changes);
  }

  async renew(): Promise<void> {
    if (this.renewError !== undefined) throw this.renewError;
    await this.#inner.renew();
  }

  async close(options: { handOver: boolean }): Promise<void> {
    this.closed.push(options);
    await this.#inner.close(options);
  }
}

describe("Tablet", () => {
  let folder: string;
  let storage: GatedStorage;
  let tablet: Tablet<typeof schema>;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "diskmesh-tablet-"));
    tablet = await open();
  });

  afterEach(async () => {
    storage.go();
    await tablet.close();
    await rm(folder, { recursive: true });
  });

  async function open(limits: Partial<TabletLimits> = {}): Promise<Tablet<typeof schema>> {
    storage = new GatedStorage(openLmdbStorage({ folder, exclusive: false }));
    return Tablet.open({ name: "registry", schema, storage, address: "127.0.0.1:7030", limits });
  }

  async function reopen(limits: Partial<TabletLimits> = {}): Promise<void> {
    await tablet.close();
    tablet = await open(limits);
  }

  function put(hostId: string, rest: Partial<Host> = {}): Promise<string> {
    return tablet.transact((tx) => {
      tx.hosts.put({ hostId, az: "z1", ...rest });
      return hostId;
    });
  }

  function hostIds(): Promise<string[]> {
    return tablet.read(({ hosts }) => Array.from(hosts.entries(), (host) => host.hostId));
  }

  it("claims above a number without a restart, and says so", async () => {
    const { incarnation } = tablet;
    await put("h1");
    expect(await tablet.claimAbove(7)).to.equal(8);
    expect(tablet.generation).to.equal(8);
    expect(await hostIds()).to.deep.equal(["h1"]);
    await put("h2");
    await reopen();
    expect([tablet.generation, tablet.incarnation]).to.deep.equal([9, incarnation]);
    expect(tablet.parentIncarnations).to.deep.equal([]);
  });

  it("claims above two numbers at once -> one after the other, though the first one's answer is late", async () => {
    let answerFirst = (): void => {};
    storage.delayAnswerOfClaim(new Promise((resolve) => (answerFirst = resolve)));
    const claims = [tablet.claimAbove(7), tablet.claimAbove(3)];
    // The second one would be answered by then.
    await put("h1");
    await put("h2");
    answerFirst();
    expect(await Promise.all(claims)).to.deep.equal([8, 9]);
    expect(tablet.generation).to.equal(9);
  });

  it("is lost when it claims above a number while another process leads", async () => {
    const other = openLmdbStorage({ folder, exclusive: false });
    await other.claim({ writer: "other", address: "127.0.0.1:9" });
    await rejection(tablet.claimAbove(7), FencedError);
    expect(await tablet.lost).to.be.instanceOf(FencedError);
    await other.close({ handOver: true });
  });

  it("refuses to claim above what is no generation, and goes on", async () => {
    for (const generation of [-1, 1.5, Number.NaN, 2 ** 53]) {
      await rejection(tablet.claimAbove(generation), InvalidArgumentError);
    }
    await put("h1");
    expect(tablet.generation).to.equal(1);
  });

  it("has everything again after it was opened again, with the next generation and the same id", async () => {
    expect(tablet.generation).to.equal(1);
    const { id } = tablet;
    await put("h1");
    await put("h2");
    await tablet.transact((tx) => tx.hosts.delete("h1"));
    await reopen();
    expect(tablet.id).to.equal(id);
    expect(tablet.generation).to.equal(2);
    expect(await hostIds()).to.deep.equal(["h2"]);
  });

  it("refuses to open what this version does not know, and lets go of the storage", async () => {
    await put("h1");
    await tablet.close();
    const other = { devices: table<{ id: string }>()({ key: ({ id }) => id }) };
    const exclusive = openLmdbStorage({ folder });
    await rejection(
      Tablet.open({ name: "registry", schema: other, storage: exclusive, address: "" }),
      InvalidStateError,
      "there is no table hosts",
    );
    const next = openLmdbStorage({ folder });
    await next.claim({ writer: "next", address: "" });
    await next.close({ handOver: true });
  });

  describe("group commit", () => {
    it("commits what one turn transacts at once, in order", async () => {
      const results = await Promise.all(Array.from({ length: 100 }, (_, i) => put(`h${i}`)));
      expect(results).to.deep.equal(Array.from({ length: 100 }, (_, i) => `h${i}`));
      expect(storage.commits.map((changes) => changes.length)).to.deep.equal([100]);
    });

    it("commits what several callbacks of one turn transact at once", async () => {
      const first = put("h1");
      // As the next call of those that came together: behind all that the first one set going.
      for (let tick = 0; tick < 5; tick++) await new Promise<void>((resolve) => process.nextTick(resolve));
      await Promise.all([first, put("h2")]);
      expect(storage.commits.map((changes) => changes.length)).to.deep.equal([2]);
    });

    it("piles what comes during a commit into the next one, with the last word on each key", async () => {
      storage.stop();
      const all = [put("first")];
      await turn();
      for (let i = 0; i < 50; i++) all.push(put(`h${i % 10}`, { az: `z${i}` }));
      await turn();
      expect(storage.commits.length).to.equal(1);
      storage.go();
      await Promise.all(all);
      expect(storage.commits.map((changes) => changes.length)).to.deep.equal([1, 10]);
      expect(storage.commits[1]?.[9]).to.deep.include({
        table: "hosts",
        key: "h9",
        document: { hostId: "h9", az: "z49" },
        previous: null,
      });
    });

    it("resolves in the order of the transactions", async () => {
      const order: number[] = [];
      await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          turns(i % 3)
            .then(() => put(`h${i}`))
            .then(() => order.push(i)),
        ),
      );
      const byTurn = [0, 1, 2].flatMap((rest) => Array.from({ length: 20 }, (_, i) => i).filter((i) => i % 3 === rest));
      expect(order).to.deep.equal(byTurn);
    });

    it("splits at the size limit", async () => {
      await reopen({ commitSizeBytes: 10_000 });
      await Promise.all(Array.from({ length: 10 }, (_, i) => put(`h${i}`, { text: "x".repeat(3_000) })));
      expect(storage.commits.map((changes) => changes.length)).to.deep.equal([3, 3, 3, 1]);
      expect((await hostIds()).length).to.equal(10);
    });

    it("commits nothing for a transaction that changes nothing", async () => {
      expect(await tablet.transact((tx) => tx.hosts.size)).to.equal(0);
      expect(await tablet.transact((tx) => tx.hosts.delete("nobody"))).to.equal(false);
      expect(storage.commits).to.deep.equal([]);
    });
  });

  describe("a transaction that fails", () => {
    it("changes nothing and harms no other in its batch", async () => {
      const error = new NotFoundError("no such host");
      const results = await Promise.allSettled([
        put("before"),
        tablet.transact((tx) => {
          tx.hosts.put({ hostId: "undone", az: "z1" });
          tx.hosts.delete("before");
          throw error;
        }),
        put("after"),
      ]);
      expect(results.map(({ status }) => status)).to.deep.equal(["fulfilled", "rejected", "fulfilled"]);
      expect((results[1] as PromiseRejectedResult).reason).to.equal(error);
      expect(await hostIds()).to.deep.equal(["after", "before"]);
      await reopen();
      expect(await hostIds()).to.deep.equal(["after", "before"]);
    });

    it("is refused when too large, and harms no other in its batch", async () => {
      await reopen({ commitSizeBytes: 10_000 });
      const results = await Promise.allSettled([
        put("before"),
        put("large", { text: "x".repeat(10_000) }),
        put("after"),
      ]);
      expect(results.map(({ status }) => status)).to.deep.equal(["fulfilled", "rejected", "fulfilled"]);
      const { reason } = results[1] as PromiseRejectedResult;
      expect(reason).to.be.instanceOf(ResourceExhaustedError);
      expect(reason.message).to.contain("10000 bytes");
      await reopen();
      expect(await hostIds()).to.deep.equal(["after", "before"]);
    });

    it("is refused while too much waits, and welcome again afterwards", async () => {
      await reopen({ pendingTransactions: 3 });
      storage.stop();
      const accepted = [put("a"), put("b"), put("c")];
      await rejection(put("d"), ResourceExhaustedError);
      storage.go();
      await Promise.all(accepted);
      await put("e");
      expect(await hostIds()).to.deep.equal(["a", "b", "c", "e"]);

      await reopen({ pendingSizeBytes: 1_000 });
      storage.stop();
      const large = put("large", { text: "x".repeat(1_000) });
      await rejection(put("f"), Error, "limit is 1000");
      storage.go();
      await large;
      await put("g");
    });
  });

  describe("read barrier", () => {
    it("shows a change only once it is durable", async () => {
      storage.stop();
      const seen: string[] = [];
      const written = put("h1").then(() => seen.push("written"));
      const reads = [
        tablet.read(({ hosts }) => hosts.has("h1")).then((has) => seen.push(`read ${has}`)),
        tablet.transact((tx) => tx.hosts.has("h1")).then((has) => seen.push(`transacted ${has}`)),
        rejection(tablet.read(() => thrown("h1 exists"))).then((e) => seen.push(e.message)),
        rejection(tablet.transact(() => thrown("h1 exists already"))).then((e) => seen.push(e.message)),
      ];
      await turns(5);
      expect(seen).to.deep.equal([]);
      storage.go();
      await Promise.all([written, ...reads]);
      expect(seen).to.have.members(["written", "read true", "transacted true", "h1 exists", "h1 exists already"]);
    });

    it("waits for the commit after the one in flight when that is what it saw", async () => {
      storage.stop();
      const first = put("h1");
      await turn();
      const second = put("h2");
      let read: boolean | undefined;
      const reading = tablet
        .read(({ hosts }) => hosts.has("h2"))
        .then((has) => {
          read = has;
        });
      storage.go();
      storage.stop();
      await first;
      await turns(3);
      expect(storage.commits.length).to.equal(2);
      expect(read).to.equal(undefined);
      storage.go();
      await Promise.all([second, reading]);
      expect(read).to.equal(true);
    });

    it("does not wait when nothing is pending", async () => {
      await put("h1");
      storage.stop();
      expect(await hostIds()).to.deep.equal(["h1"]);
    });

    it("fails, rather than show it, when what it saw is lost", async () => {
      storage.stop();
      const written = rejection(put("h1"));
      const read = rejection(tablet.read(({ hosts }) => hosts.has("h1")));
      storage.failWith = new FencedError("claimed by another");
      storage.go();
      expect(await written).to.be.instanceOf(FencedError);
      expect(await read).to.be.instanceOf(FencedError);
    });
  });

  describe("when another process has claimed the tablet", () => {
    it("drops everything, rejects all that is pending, and says that it is lost", async () => {
      await put("durable");
      storage.stop();
      const inFlight = rejection(put("in-flight"));
      await turn();
      const waiting = rejection(put("waiting"));
      const heard: unknown[] = [];
      tablet.watch((changes) => heard.push(changes));
      const newer = openLmdbStorage({ folder, exclusive: false });
      await newer.claim({ writer: "newer", address: "127.0.0.1:9" });
      storage.go();
      for (const error of await Promise.all([inFlight, waiting, tablet.lost])) {
        expect(error).to.be.instanceOf(FencedError);
        expect(error.message).to.contain("claimed by 127.0.0.1:9 with generation 2");
      }
      expect(await rejection(put("later"))).to.equal(await tablet.lost);
      expect(await rejection(hostIds())).to.equal(await tablet.lost);
      expect(heard).to.deep.equal([]);
      expect(storage.commits.length).to.equal(2);
      const keys: string[] = [];
      await newer.load((_, key) => keys.push(key));
      await newer.close({ handOver: true });
      expect(keys).to.deep.equal(["durable"]);
    });

    it("learns of it from the renewal when it has nothing to commit", async () => {
      await reopen({ renewIntervalMs: 5 });
      const newer = openLmdbStorage({ folder, exclusive: false });
      await newer.claim({ writer: "newer", address: "127.0.0.1:9" });
      expect(await tablet.lost).to.be.instanceOf(FencedError);
      await rejection(hostIds(), FencedError);
      await newer.close({ handOver: true });
    });

    it("does not know what became of the commit that was in flight when a renewal failed", async () => {
      await reopen({ renewIntervalMs: 5 });
      storage.stop();
      const inFlight = rejection(put("in-flight"), UnavailableError);
      await turn();
      const waiting = rejection(put("waiting"), FencedError);
      storage.renewError = new FencedError("claimed by another");
      expect(await inFlight).to.include({ name: "UnavailableError", outcome: "unknown" });
      expect(await waiting).to.include({ name: "FencedError", outcome: "not_done" });
      storage.go();
    });

    it("does not hand over the lease it no longer has", async () => {
      storage.failWith = new FencedError("claimed by another");
      await rejection(put("h1"));
      await tablet.close();
      expect(storage.closed).to.deep.equal([{ handOver: false }]);
    });
  });

  it("is lost when the storage fails, and says that the outcome is unknown", async () => {
    storage.failWith = new Error("disk on fire");
    const error = await rejection(put("h1"), UnavailableError);
    expect(error.outcome).to.equal("unknown");
    expect(error.message).to.contain("disk on fire");
    expect((await tablet.lost).message).to.contain("disk on fire");
  });

  it("is lost when a commit takes too long", async () => {
    await reopen({ commitTimeoutMs: 20 });
    storage.stop();
    const error = await rejection(put("h1"), UnavailableError);
    expect(error.outcome).to.equal("unknown");
    expect(error.message).to.contain("longer than 20 ms");
    expect(await rejection(put("h2"))).to.equal(await tablet.lost);
  });

  describe("watch", () => {
    it("hears every durable commit once, in order, before the transaction resolves", async () => {
      const heard: string[] = [];
      tablet.watch((changes) => heard.push(changes.map(({ key }) => key).join("+")));
      storage.stop();
      const all = [put("a").then(() => heard.push("resolved a"))];
      await turn();
      all.push(
        put("b").then(() => heard.push("resolved b")),
        put("c").then(() => heard.push("resolved c")),
      );
      await turns(3);
      expect(heard).to.deep.equal([]);
      storage.go();
      await Promise.all(all);
      expect(heard).to.deep.equal(["a", "resolved a", "b+c", "resolved b", "resolved c"]);
    });

    it("ends for one listener only, and survives one that throws", async () => {
      const warnings: string[] = [];
      const onWarning = (warning: Error): number => warnings.push(warning.message);
      process.on("warning", onWarning);
      const heard: number[] = [];
      const listener = (changes: readonly Change[]): number => heard.push(changes.length);
      tablet.watch(() => thrown("listener is broken"));
      tablet.watch(listener);
      const unsubscribe = tablet.watch(listener);
      await put("a");
      unsubscribe();
      await put("b");
      await turn();
      process.off("warning", onWarning);
      expect(heard).to.deep.equal([1, 1, 1]);
      expect(warnings).to.deep.equal(Array(2).fill("a listener of tablet registry threw: listener is broken"));
    });

    it("may transact from a listener", async () => {
      const unsubscribe = tablet.watch((changes) => {
        if (changes[0]?.key === "a") void put("b");
      });
      await put("a");
      expect(await hostIds()).to.deep.equal(["a", "b"]);
      unsubscribe();
    });
  });

  describe("close", () => {
    it("waits for what was accepted, refuses the rest, and hands over", async () => {
      storage.stop();
      const accepted = put("a");
      const closing = tablet.close();
      await rejection(put("b"), UnavailableError);
      expect(storage.closed).to.deep.equal([]);
      storage.go();
      await Promise.all([accepted, closing, tablet.close()]);
      expect(storage.closed).to.deep.equal([{ handOver: true }]);
      await reopen();
      expect(await hostIds()).to.deep.equal(["a"]);
    });

    it("comes with `await using`", async () => {
      await tablet.close();
      {
        await using scoped = await open();
        await scoped.transact((tx) => tx.hosts.put({ hostId: "a", az: "z1" }));
      }
      expect(storage.closed).to.deep.equal([{ handOver: true }]);
    });
  });
});

function thrown(message: string): never {
  throw new Error(message);
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await turn();
}

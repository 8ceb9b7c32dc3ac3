import { FencedError, NotFoundError, ResourceExhaustedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import type { Change } from "./documents/schema.js";
import { TabletScene, turn, turns } from "./testing/tablet-scene.js";

describe("Tablet", () => {
  let scene: TabletScene;

  beforeEach(async () => {
    scene = await TabletScene.open();
  });
  afterEach(() => scene.end());

  describe("group commit", () => {
    it("commits concurrent transactions of one turn together, in order", async () => {
      const results = await Promise.all(Array.from({ length: 100 }, (_, i) => scene.put(`h${i}`)));
      expect(results).to.deep.equal(Array.from({ length: 100 }, (_, i) => `h${i}`));
      expect(scene.storage.commits.map((changes) => changes.length)).to.deep.equal([100]);
    });

    it("commits concurrent transactions of several callbacks of one turn together", async () => {
      const first = scene.put("h1");
      // Waits until everything started by the first of several concurrent calls has run.
      for (let tick = 0; tick < 5; tick++) await new Promise<void>((resolve) => process.nextTick(resolve));
      await Promise.all([first, scene.put("h2")]);
      expect(scene.storage.commits.map((changes) => changes.length)).to.deep.equal([2]);
    });

    it("collects transactions that arrive during a commit into the next one, with the last change of each key", async () => {
      scene.storage.stop();
      const all = [scene.put("first")];
      await turn();
      for (let i = 0; i < 50; i++) all.push(scene.put(`h${i % 10}`, { az: `z${i}` }));
      await turn();
      expect(scene.storage.commits.length).to.equal(1);
      scene.storage.go();
      await Promise.all(all);
      expect(scene.storage.commits.map((changes) => changes.length)).to.deep.equal([1, 10]);
      expect(scene.storage.commits[1]?.[9]).to.deep.include({
        table: "hosts",
        key: "h9",
        document: { hostId: "h9", az: "z49" },
        previous: null,
      });
    });

    it("splits at the size limit", async () => {
      await scene.reopen({ commitSizeBytes: 10_000 });
      await Promise.all(Array.from({ length: 10 }, (_, i) => scene.put(`h${i}`, { text: "x".repeat(3_000) })));
      expect(scene.storage.commits.map((changes) => changes.length)).to.deep.equal([3, 3, 3, 1]);
      expect((await scene.hostIds()).length).to.equal(10);
    });

    it("commits nothing for a transaction without changes", async () => {
      expect(await scene.tablet.transact((tx) => tx.hosts.size)).to.equal(0);
      expect(await scene.tablet.transact((tx) => tx.hosts.delete("nobody"))).to.equal(false);
      expect(scene.storage.commits).to.deep.equal([]);
    });
  });

  describe("lends its storage the documents", () => {
    it("as of the request, once they are durable", async () => {
      scene.storage.stop();
      const first = scene.put("h1");
      let isLent = false;
      const lent = scene.storage.snapshot().then((documents) => {
        isLent = true;
        return Array.from(documents, ({ key }) => key);
      });
      const second = scene.put("h2");
      await turns(3);
      expect(isLent).to.equal(false);
      scene.storage.go();
      expect(await lent).to.deep.equal(["h1"]);
      await Promise.all([first, second]);
    });

    it("never when they could not be stored", async () => {
      scene.storage.failWith = new Error("the disk is gone");
      const first = scene.put("h1");
      const lent = scene.storage.snapshot();
      await Promise.all([rejection(first), rejection(lent)]);
      await rejection(scene.storage.snapshot());
    });
  });

  describe("a failing transaction", () => {
    it("changes nothing and does not affect others in its batch", async () => {
      const error = new NotFoundError("no such host");
      const results = await Promise.allSettled([
        scene.put("before"),
        scene.tablet.transact((tx) => {
          tx.hosts.put({ hostId: "undone", az: "z1" });
          tx.hosts.delete("before");
          throw error;
        }),
        scene.put("after"),
      ]);
      expect(results.map(({ status }) => status)).to.deep.equal(["fulfilled", "rejected", "fulfilled"]);
      expect((results[1] as PromiseRejectedResult).reason).to.equal(error);
      expect(await scene.hostIds()).to.deep.equal(["after", "before"]);
      await scene.reopen();
      expect(await scene.hostIds()).to.deep.equal(["after", "before"]);
    });

    it("is refused when too large, and does not affect others in its batch", async () => {
      await scene.reopen({ commitSizeBytes: 10_000 });
      const results = await Promise.allSettled([
        scene.put("before"),
        scene.put("large", { text: "x".repeat(10_000) }),
        scene.put("after"),
      ]);
      expect(results.map(({ status }) => status)).to.deep.equal(["fulfilled", "rejected", "fulfilled"]);
      const { reason } = results[1] as PromiseRejectedResult;
      expect(reason).to.be.instanceOf(ResourceExhaustedError);
      expect(reason.message).to.contain("10000 bytes");
      await scene.reopen();
      expect(await scene.hostIds()).to.deep.equal(["after", "before"]);
    });

    it("is refused while too much waits, and accepted again afterwards", async () => {
      await scene.reopen({ pendingTransactions: 3 });
      scene.storage.stop();
      const accepted = [scene.put("a"), scene.put("b"), scene.put("c")];
      await rejection(scene.put("d"), ResourceExhaustedError);
      scene.storage.go();
      await Promise.all(accepted);
      await scene.put("e");
      expect(await scene.hostIds()).to.deep.equal(["a", "b", "c", "e"]);

      await scene.reopen({ pendingSizeBytes: 1_000 });
      scene.storage.stop();
      const large = scene.put("large", { text: "x".repeat(1_000) });
      await rejection(scene.put("f"), Error, "limit is 1000");
      scene.storage.go();
      await large;
      await scene.put("g");
    });
  });

  describe("read barrier", () => {
    it("shows a change only once it is durable", async () => {
      scene.storage.stop();
      const seen: string[] = [];
      const written = scene.put("h1").then(() => seen.push("written"));
      const reads = [
        scene.tablet.read(({ hosts }) => hosts.has("h1")).then((has) => seen.push(`read ${has}`)),
        scene.tablet.transact((tx) => tx.hosts.has("h1")).then((has) => seen.push(`transacted ${has}`)),
        rejection(scene.tablet.read(() => thrown("h1 exists"))).then((e) => seen.push(e.message)),
        rejection(scene.tablet.transact(() => thrown("h1 exists already"))).then((e) => seen.push(e.message)),
      ];
      await turns(5);
      expect(seen).to.deep.equal([]);
      scene.storage.go();
      await Promise.all([written, ...reads]);
      expect(seen).to.have.members(["written", "read true", "transacted true", "h1 exists", "h1 exists already"]);
    });

    it("waits for the commit after the one in flight when the read saw its changes", async () => {
      scene.storage.stop();
      const first = scene.put("h1");
      await turn();
      const second = scene.put("h2");
      let read: boolean | undefined;
      const reading = scene.tablet
        .read(({ hosts }) => hosts.has("h2"))
        .then((has) => {
          read = has;
        });
      scene.storage.go();
      scene.storage.stop();
      await first;
      await turns(3);
      expect(scene.storage.commits.length).to.equal(2);
      expect(read).to.equal(undefined);
      scene.storage.go();
      await Promise.all([second, reading]);
      expect(read).to.equal(true);
    });

    it("does not wait when nothing is pending", async () => {
      await scene.put("h1");
      scene.storage.stop();
      expect(await scene.hostIds()).to.deep.equal(["h1"]);
    });

    it("fails instead of showing changes that are lost", async () => {
      scene.storage.stop();
      const written = rejection(scene.put("h1"));
      const read = rejection(scene.tablet.read(({ hosts }) => hosts.has("h1")));
      scene.storage.failWith = new FencedError("claimed by another");
      scene.storage.go();
      expect(await written).to.be.instanceOf(FencedError);
      expect(await read).to.be.instanceOf(FencedError);
    });
  });

  describe("watch", () => {
    it("reports every durable commit once, in order, before the transaction resolves", async () => {
      const heard: string[] = [];
      scene.tablet.watch((changes) => heard.push(changes.map(({ key }) => key).join("+")));
      scene.storage.stop();
      const all = [scene.put("a").then(() => heard.push("resolved a"))];
      await turn();
      all.push(
        scene.put("b").then(() => heard.push("resolved b")),
        scene.put("c").then(() => heard.push("resolved c")),
      );
      await turns(3);
      expect(heard).to.deep.equal([]);
      scene.storage.go();
      await Promise.all(all);
      expect(heard).to.deep.equal(["a", "resolved a", "b+c", "resolved b", "resolved c"]);
    });

    it("ends for one listener only, and survives one that throws", async () => {
      const warnings: string[] = [];
      const onWarning = (warning: Error): number => warnings.push(warning.message);
      process.on("warning", onWarning);
      const heard: number[] = [];
      const listener = (changes: readonly Change[]): number => heard.push(changes.length);
      scene.tablet.watch(() => thrown("listener is broken"));
      scene.tablet.watch(listener);
      const unsubscribe = scene.tablet.watch(listener);
      await scene.put("a");
      unsubscribe();
      await scene.put("b");
      await turn();
      process.off("warning", onWarning);
      expect(heard).to.deep.equal([1, 1, 1]);
      expect(warnings).to.deep.equal(Array(2).fill("a listener of tablet registry threw: listener is broken"));
    });

    it("allows transactions from a listener", async () => {
      const unsubscribe = scene.tablet.watch((changes) => {
        if (changes[0]?.key === "a") void scene.put("b");
      });
      await scene.put("a");
      expect(await scene.hostIds()).to.deep.equal(["a", "b"]);
      unsubscribe();
    });
  });
});

function thrown(message: string): never {
  throw new Error(message);
}

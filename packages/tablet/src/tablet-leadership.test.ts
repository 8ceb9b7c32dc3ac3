import { FencedError, InvalidArgumentError, InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { table } from "./documents/schema.js";
import { openEmbeddedStorage } from "./embedded/embedded-storage.js";
import { Tablet } from "./tablet.js";
import { TabletScene, turn } from "./testing/tablet-scene.js";

describe("leadership of a tablet", () => {
  let scene: TabletScene;

  beforeEach(async () => {
    scene = await TabletScene.open();
  });
  afterEach(() => scene.end());

  it("claims above a number without a restart, and reports the new generation", async () => {
    const { incarnation } = scene.tablet;
    await scene.put("h1");
    expect(await scene.tablet.claimAbove(7)).to.equal(8);
    expect(scene.tablet.generation).to.equal(8);
    expect(await scene.hostIds()).to.deep.equal(["h1"]);
    await scene.put("h2");
    await scene.reopen();
    expect([scene.tablet.generation, scene.tablet.incarnation]).to.deep.equal([9, incarnation]);
    expect(scene.tablet.parentIncarnations).to.deep.equal([]);
  });

  it("claims above two numbers in turn when both are requested at once and the first answer is late", async () => {
    let answerFirst = (): void => {};
    scene.storage.delayAnswerOfClaim(new Promise((resolve) => (answerFirst = resolve)));
    const claims = [scene.tablet.claimAbove(7), scene.tablet.claimAbove(3)];
    // The second claim would be answered before this commit.
    await scene.put("h1");
    await scene.put("h2");
    answerFirst();
    expect(await Promise.all(claims)).to.deep.equal([8, 9]);
    expect(scene.tablet.generation).to.equal(9);
  });

  it("is lost when it claims above a number while another process leads", async () => {
    const other = openEmbeddedStorage({ folder: scene.folder, exclusive: false });
    await other.claim({ writer: "other", address: "127.0.0.1:9" });
    await rejection(scene.tablet.claimAbove(7), FencedError);
    expect(await scene.tablet.lost).to.be.instanceOf(FencedError);
    await other.close({ handOver: true });
  });

  it("refuses to claim above an invalid generation, and continues", async () => {
    for (const generation of [-1, 1.5, Number.NaN, 2 ** 53]) {
      await rejection(scene.tablet.claimAbove(generation), InvalidArgumentError);
    }
    await scene.put("h1");
    expect(scene.tablet.generation).to.equal(1);
  });

  it("refuses to open documents that this version does not know, and releases the storage", async () => {
    await scene.put("h1");
    await scene.tablet.close();
    const other = { devices: table<{ id: string }>()({ key: ({ id }) => id }) };
    const exclusive = openEmbeddedStorage({ folder: scene.folder });
    await rejection(
      Tablet.open({ name: "registry", schema: other, storage: exclusive, address: "" }),
      InvalidStateError,
      "there is no table hosts",
    );
    const next = openEmbeddedStorage({ folder: scene.folder });
    await next.claim({ writer: "next", address: "" });
    await next.close({ handOver: true });
  });

  describe("when another process has claimed the tablet", () => {
    it("drops everything, rejects all pending transactions, and reports that it is lost", async () => {
      await scene.put("durable");
      scene.storage.stop();
      const inFlight = rejection(scene.put("in-flight"));
      await turn();
      const waiting = rejection(scene.put("waiting"));
      const heard: unknown[] = [];
      scene.tablet.watch((changes) => heard.push(changes));
      const newer = openEmbeddedStorage({ folder: scene.folder, exclusive: false });
      await newer.claim({ writer: "newer", address: "127.0.0.1:9" });
      scene.storage.go();
      for (const error of await Promise.all([inFlight, waiting, scene.tablet.lost])) {
        expect(error).to.be.instanceOf(FencedError);
        expect(error.message).to.contain("claimed by 127.0.0.1:9 with generation 2");
      }
      expect(await rejection(scene.put("later"))).to.equal(await scene.tablet.lost);
      expect(await rejection(scene.hostIds())).to.equal(await scene.tablet.lost);
      expect(heard).to.deep.equal([]);
      expect(scene.storage.commits.length).to.equal(2);
      const keys: string[] = [];
      await newer.load((_, key) => keys.push(key));
      await newer.close({ handOver: true });
      expect(keys).to.deep.equal(["durable"]);
    });

    it("is detected by the renewal when there is nothing to commit", async () => {
      await scene.reopen({ renewIntervalMs: 5 });
      const newer = openEmbeddedStorage({ folder: scene.folder, exclusive: false });
      await newer.claim({ writer: "newer", address: "127.0.0.1:9" });
      expect(await scene.tablet.lost).to.be.instanceOf(FencedError);
      await rejection(scene.hostIds(), FencedError);
      await newer.close({ handOver: true });
    });

    it("leaves the outcome of a commit in flight unknown when a renewal failed", async () => {
      await scene.reopen({ renewIntervalMs: 5 });
      scene.storage.stop();
      const inFlight = rejection(scene.put("in-flight"), UnavailableError);
      await turn();
      const waiting = rejection(scene.put("waiting"), FencedError);
      scene.storage.renewError = new FencedError("claimed by another");
      expect(await inFlight).to.include({ name: "UnavailableError", outcome: "unknown" });
      expect(await waiting).to.include({ name: "FencedError", outcome: "not_done" });
      scene.storage.go();
    });

    it("does not hand over the lease it no longer holds", async () => {
      scene.storage.failWith = new FencedError("claimed by another");
      await rejection(scene.put("h1"));
      await scene.tablet.close();
      expect(scene.storage.closed).to.deep.equal([{ handOver: false }]);
    });
  });

  it("is lost when the storage fails, and reports the outcome as unknown", async () => {
    scene.storage.failWith = new Error("disk on fire");
    const error = await rejection(scene.put("h1"), UnavailableError);
    expect(error.outcome).to.equal("unknown");
    expect(error.message).to.contain("disk on fire");
    expect((await scene.tablet.lost).message).to.contain("disk on fire");
  });

  describe("close", () => {
    it("waits for accepted transactions, refuses further ones, and hands over", async () => {
      scene.storage.stop();
      const accepted = scene.put("a");
      const closing = scene.tablet.close();
      await rejection(scene.put("b"), UnavailableError);
      expect(scene.storage.closed).to.deep.equal([]);
      scene.storage.go();
      await Promise.all([accepted, closing, scene.tablet.close()]);
      expect(scene.storage.closed).to.deep.equal([{ handOver: true }]);
      await scene.reopen();
      expect(await scene.hostIds()).to.deep.equal(["a"]);
    });
  });
});

import { FencedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { claim, contentsOf, put, remove, type StorageClients } from "./storage-clients.js";
import type { Contents } from "./storage-location.js";

/** Contract of claims: one claimant at a time may write, and generations rise. */
export function claimContract(clients: StorageClients): void {
  describe("claim", () => {
    it("starts at generation 1 and goes up by one, for the same tablet", async () => {
      const claims = [];
      for (const writer of ["a", "b", "c"]) {
        const storage = clients.open();
        claims.push(await claim(storage, writer));
        await storage.close({ handOver: true });
      }
      expect(claims.map(({ generation }) => generation)).to.deep.equal([1, 2, 3]);
      expect(claims[0]?.tabletId).to.match(/^[0-9a-f-]{36}$/);
      expect(new Set(claims.map(({ tabletId }) => tabletId)).size).to.equal(1);
    });

    it("returns the incarnation, which is constant from the first claim on, and no parents", async () => {
      const claims = [];
      for (const writer of ["a", "b", "c"]) {
        const storage = clients.open();
        claims.push(await claim(storage, writer));
        await storage.load(() => {});
        if (writer === "b") await storage.claimAbove(10);
        await storage.close({ handOver: true });
      }
      const [first] = claims;
      expect(first?.incarnation).to.match(/^[0-9a-f-]{36}$/);
      for (const { incarnation, parentIncarnations, tabletId } of claims) {
        expect([incarnation, parentIncarnations]).to.deep.equal([first?.incarnation, []]);
        expect(incarnation).not.to.equal(tabletId);
      }
    });

    it("gives racing claimants different generations, and only the highest can commit", async () => {
      const racing = ["a", "b", "c", "d"].map((writer) => ({ writer, storage: clients.open() }));
      const claimed = await Promise.all(
        racing.map(async ({ writer, storage }) => {
          const claimed = await claim(storage, writer).catch(() => undefined);
          return { storage, generation: claimed?.generation ?? 0 };
        }),
      );
      const generations = claimed.map(({ generation }) => generation).filter((generation) => generation > 0);
      expect(new Set(generations).size).to.equal(generations.length);
      const highest = Math.max(...generations);
      for (const { storage, generation } of claimed.filter((each) => each.generation > 0)) {
        const leading = storage.load(() => {}).then(() => storage.commit([put("hosts", "winner", { generation })]));
        const ended = await leading.catch((error: unknown) => error);
        // On a storage with a lease, the claimant with the highest generation is fenced, too, if another process took
        // the lease before that claim.
        if (generation !== highest || ended !== undefined) expect(ended).to.be.instanceOf(FencedError);
      }
      const next = clients.open();
      expect((await claim(next, "next")).generation).to.equal(highest + 1);
      const winners = [...(await contentsOf(next)).values()];
      if (winners.length > 0) expect(winners).to.deep.equal([{ generation: highest }]);
    });

    it("must precede everything else", async () => {
      const storage = clients.open();
      await rejection(storage.commit([put("hosts", "h", {})]));
      await rejection(storage.load(() => {}));
      await rejection(storage.renew());
    });
  });

  describe("claiming above a number", () => {
    it("takes a generation above it and its own, and the next claim continues from there", async () => {
      const storage = await clients.openLoaded();
      expect(await storage.claimAbove(40)).to.equal(41);
      expect(await storage.claimAbove(3)).to.equal(42);
      await storage.commit([put("hosts", "h", { n: 1 })]);
      await storage.close({ handOver: true });
      const next = clients.open();
      expect((await claim(next, "next")).generation).to.equal(43);
      expect(await contentsOf(next)).to.deep.equal(new Map([["hosts/h", { n: 1 }]]));
    });

    it("loses none of the commits under way", async () => {
      const storage = await clients.openLoaded();
      const expected: Contents = new Map();
      const claiming: Promise<number>[] = [];
      for (let n = 0; n < 60; n++) {
        if (n % 20 === 5) claiming.push(storage.claimAbove(n * 10));
        await storage.commit([put("hosts", `h${n % 7}`, { n }), remove("hosts", `h${(n + 3) % 7}`)]);
        expected.set(`hosts/h${n % 7}`, { n });
        expected.delete(`hosts/h${(n + 3) % 7}`);
      }
      expect((await Promise.all(claiming)).at(-1)).to.be.above(450);
      await storage.renew();
      await storage.close({ handOver: true });
      expect(await clients.contentsOfNext()).to.deep.equal(expected);
    });

    it("is refused after a newer leader's claim", async () => {
      const older = await clients.openLoaded("older");
      const newer = await clients.openLoaded("newer");
      await rejection(older.claimAbove(100), FencedError);
      await newer.commit([put("hosts", "h", {})]);
      expect((await claim(clients.open(), "next")).generation).to.equal(3);
    });

    it("is refused before a load and after the end", async () => {
      const storage = clients.open();
      await rejection(storage.claimAbove(1));
      await claim(storage, "writer");
      await storage.load(() => {});
      await storage.close({ handOver: true });
      await rejection(storage.claimAbove(1));
    });
  });
}

import { FencedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { contentsOf, put, remove, type StorageClients } from "./storage-clients.js";
import { expectWholeCommit, startChild } from "./writing-process.js";

/** Contract of fencing: no write of an older leader lands after a newer claim. */
export function fencingContract(clients: StorageClients): void {
  describe("fencing", () => {
    it("refuses the older leader's commit and shows nothing of it", async () => {
      const older = await clients.openLoaded("older");
      await older.commit([put("hosts", "h1", { by: "older" }), put("hosts", "h2", { by: "older" })]);
      const newer = await clients.openClaimed("newer");
      await rejection(
        older.commit([put("hosts", "h1", { by: "late" }), remove("hosts", "h2"), put("devices", "d1", { by: "late" })]),
        FencedError,
      );
      expect(await contentsOf(newer)).to.deep.equal(
        new Map([
          ["hosts/h1", { by: "older" }],
          ["hosts/h2", { by: "older" }],
        ]),
      );
    });

    it("reports fencing to the older leader on renewal, and not to the current one", async () => {
      const older = await clients.openClaimed("older");
      await older.renew();
      const newer = await clients.openClaimed("newer");
      await rejection(older.renew(), FencedError);
      await newer.renew();
    });

    it("keeps a fenced leader fenced", async () => {
      const older = await clients.openLoaded("older");
      const newer = await clients.openLoaded("newer");
      for (let i = 0; i < 3; i++) {
        await rejection(older.commit([put("hosts", `late-${i}`, {})]), FencedError);
        await newer.commit([put("hosts", "h", { i })]);
      }
      expect(await clients.contentsOfNext()).to.deep.equal(new Map([["hosts/h", { i: 2 }]]));
    });

    it("shows no commit of another process after a claim", async () => {
      const child = startChild(clients.location);
      await child.committed(20);
      const newer = await clients.openClaimed("newer");
      const before = await contentsOf(newer);
      expect(await child.ended()).to.equal("fenced");
      expect(await clients.contentsOfNext()).to.deep.equal(before);
      expectWholeCommit(before, child.last());
    });
  });
}

import { expect } from "chai";
import { claimContract } from "./claims.js";
import { commitContract } from "./commits.js";
import { fencingContract } from "./fencing.js";
import { contentsOf, StorageClients } from "./storage-clients.js";
import type { StorageLocation } from "./storage-location.js";
import { expectWholeCommit, startChild } from "./writing-process.js";

/** Registers a mocha suite with the contract of every TabletStorage. */
export function storageContract(name: string, makeLocation: () => Promise<StorageLocation>): void {
  describe(`storage contract: ${name}`, () => {
    const clients = new StorageClients(makeLocation);

    beforeEach(() => clients.begin());
    afterEach(() => clients.end());

    claimContract(clients);
    fencingContract(clients);
    commitContract(clients);

    it("loses no acknowledged commit and shows no partial one when its process is killed", async () => {
      let atLeast = -1;
      for (let round = 0; round < 4; round++) {
        const child = startChild(clients.location);
        await child.committed(5 + round * 11);
        child.kill();
        await child.ended();
        expect(child.last()).to.be.greaterThan(atLeast);
        const storage = await clients.openClaimed(`reader-${round}`);
        const contents = await contentsOf(storage);
        await storage.close({ handOver: false });
        expectWholeCommit(contents, child.last());
        atLeast = child.last();
      }
    });
  });
}

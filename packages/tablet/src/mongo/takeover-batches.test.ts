import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { TrackedStorage } from "../testing/tracked-storage.js";
import type { DocumentServer } from "./document-server.js";
import { MongoStorage } from "./mongo-storage.js";
import { changed } from "./simulation/candidate.js";
import { idealServer } from "./testing/ideal-server.js";

const CHANGES = 30;
const BATCH_CHANGES = 10;
const VIEW = "registry.hosts";

describe("the log entries that a leader finds at its takeover", () => {
  async function lead(server: DocumentServer, writer: string): Promise<TrackedStorage> {
    const limits = { leaseTimeMs: 0, applyIntervalMs: 1, batchChanges: BATCH_CHANGES };
    const storage = new TrackedStorage(
      new MongoStorage({ tabletName: "registry", connect: async () => server, limits }),
    );
    await storage.claim({ writer, address: "127.0.0.1:1" });
    await storage.load();
    return storage;
  }

  it("are applied in batches, with claims in between and one checkpoint after all of them", async () => {
    const server = idealServer();
    const refusing = changed(server, { write: async () => ({ present: [], refused: "no" }) });
    const former = await lead(refusing, "former");
    for (let n = 0; n < CHANGES; n++) await former.commit([{ table: "hosts", key: `h${n}`, document: { n } }]);
    await former.close({ handOver: true });

    const batches: number[] = [];
    const atCheckpoints: number[] = [];
    let appliedBeforeClaim: number | undefined;
    let claiming: Promise<number> | undefined;
    const observed = changed(server, {
      write: (collection, writes) => {
        if (collection === VIEW) batches.push(writes.length);
        claiming ??= next.claimAbove(50);
        return server.write(collection, writes);
      },
      insert: async (collection, document) => {
        if (document.generation === 51 && document.kind === "claim")
          appliedBeforeClaim = batches.reduce((sum, size) => sum + size);
        if (document.kind === "checkpoint") atCheckpoints.push((await server.find(VIEW, { limit: 100 })).length);
        return server.insert(collection, document);
      },
    });
    const next = await lead(observed, "next");
    await eventually(() => claiming !== undefined);
    expect(await claiming).to.equal(51);
    expect(appliedBeforeClaim).to.be.within(1, 2 * BATCH_CHANGES);
    await eventually(() => atCheckpoints.length > 0);
    expect(Math.max(...batches)).to.be.at.most(BATCH_CHANGES);
    expect(atCheckpoints).to.deep.equal(atCheckpoints.map(() => CHANGES));
    await next.close({ handOver: true });
  });
});

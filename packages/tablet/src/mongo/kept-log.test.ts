import { ManualClock } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { TrackedStorage } from "../testing/tracked-storage.js";
import type { DocumentServer } from "./document-server.js";
import { MongoStorage, type MongoStorageLimits } from "./mongo-storage.js";
import { changed } from "./simulation/candidate.js";
import { idealServer } from "./testing/ideal-server.js";

const KEPT_LOG_MS = 1_000;
const COMMIT_BYTES = 1_000;

describe("commits in the log that are already in the view", () => {
  let clock: ManualClock;
  let server: DocumentServer;
  let deletes: number;

  beforeEach(() => {
    clock = new ManualClock();
    deletes = 0;
    const ideal = idealServer();
    server = changed(ideal, {
      delete: (collection, range) => {
        deletes++;
        return ideal.delete(collection, range);
      },
    });
  });

  async function lead(limits: Partial<MongoStorageLimits>): Promise<TrackedStorage> {
    const storage = new TrackedStorage(
      new MongoStorage({
        tabletName: "registry",
        connect: async () => server,
        limits: { leaseTimeMs: 0, applyIntervalMs: 1, ...limits },
        clock,
      }),
    );
    await storage.claim({ writer: "w", address: "" });
    await storage.load();
    return storage;
  }

  /** Makes a commit every `everyMs`, and returns the number of log entries after each. */
  async function commit(storage: TrackedStorage, count: number, everyMs: number): Promise<number[]> {
    const inLog: number[] = [];
    for (let n = 0; n < count; n++) {
      await storage.commit([{ table: "hosts", key: `h${n}`, document: { text: "x".repeat(COMMIT_BYTES) } }]);
      await clock.passTo(clock.monotonicMs() + everyMs);
      const commits = await server.find("registry.log", { kinds: ["commit"], limit: 1_000 });
      // Counts only commits of hosts, not the commit of the format document.
      inLog.push(commits.filter(({ changes }) => (changes as { table: string }[])[0]?.table === "hosts").length);
    }
    return inLog;
  }

  it("stay for at least half of the time and at most all of it, and leave many at a time", async () => {
    const storage = await lead({ keptLogMs: KEPT_LOG_MS });
    const inLog = await commit(storage, 60, 50);
    // The log grows by one entry per commit before the first deletion.
    expect(inLog.slice(0, 19)).to.deep.equal(Array.from({ length: 19 }, (_, n) => n + 1));
    for (const count of inLog.slice(20)) expect(count).to.be.within(9, 22);
    expect(deletes).to.be.within(3, 6);
    await storage.close({ handOver: true });
  });

  it("leave sooner when they are large", async () => {
    const storage = await lead({ keptLogMs: 1_000_000, keptLogSizeBytes: 20 * COMMIT_BYTES });
    const inLog = await commit(storage, 60, 50);
    for (const count of inLog.slice(20)) expect(count).to.be.within(9, 21);
    expect(deletes).to.be.within(3, 6);
    await storage.close({ handOver: true });
  });
});

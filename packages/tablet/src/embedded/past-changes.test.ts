import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { InvalidStateError, ResourceExhaustedError } from "@diskmesh/domain";
import { ManualClock, rejection } from "@diskmesh/domain/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import type { CommitPlace, PastChange, TabletStorage } from "../storage/storage.js";
import { openEmbeddedStorage } from "./embedded-storage.js";

const LEADER = { writer: "writer", address: "127.0.0.1:1" };
const { signal } = new AbortController();

describe("past changes in a folder", () => {
  let folder: string;
  let clock: ManualClock;
  let storage: TabletStorage;

  beforeEach(async () => {
    folder = join(temporaryFolder(), "registry");
    clock = new ManualClock();
    storage = await open();
  });

  afterEach(() => storage.close({ handOver: true }));

  async function open(): Promise<TabletStorage> {
    const opened = openEmbeddedStorage({ folder, clock, journalsBytesMin: 3_000 });
    await opened.claim(LEADER);
    await opened.load(
      () => {},
      async () => [],
    );
    return opened;
  }

  async function reopen(): Promise<void> {
    await storage.close({ handOver: true });
    storage = await open();
  }

  const commit = (key: string, document: object | null, cause?: string) =>
    storage.commit([{ table: "hosts", key, document, version: 1, previous: { document: {}, version: 1 }, cause }]);

  async function past(key: string, before?: CommitPlace) {
    const changes: PastChange[] = [];
    const kept = await storage.pastChanges?.({ table: "hosts", key, before, signal }, (change) => changes.push(change));
    return { changes, kept };
  }

  it("have the time, the cause and the document of each commit with the key, oldest first, over restarts", async () => {
    await commit("a", { n: 1 }, "alice");
    const startedMs = clock.nowMs();
    await commit("b", { n: 2 });
    await reopen();
    await clock.passTo(clock.monotonicMs() + 5_000);
    await commit("a", null, "bob");
    const { changes, kept } = await past("a");
    expect(changes.map(({ atMs, cause, document }) => [atMs, cause, document])).to.deep.equal([
      [startedMs, "alice", { n: 1 }],
      [startedMs + 5_000, "bob", null],
    ]);
    expect(kept).to.deep.equal({ sinceMs: startedMs, isComplete: true });
    expect((await past("a", changes[1]?.commit)).changes).to.deep.equal(changes.slice(0, 1));
    expect((await past("a", changes[0]?.commit)).changes).to.deep.equal([]);
  });

  it("reach back to the snapshot before last, and no further, also after a restart", async () => {
    const names = () => readdirSync(folder).sort();
    const snapshots = () => names().filter((name) => /^snapshot\.\d+$/.test(name));
    const lastJournal = () => names().findLast((name) => name.startsWith("journal"));
    const untilSnapshot = async () => {
      const [before, journal] = [snapshots().join(), lastJournal()];
      // A snapshot begins with a journal, and at no commit while the former one removes old files.
      while (lastJournal() === journal) await commit("noise", { text: "x".repeat(1_000) });
      await eventually(() => expect(snapshots().join()).not.to.be.oneOf(["", before]));
      await eventually(() => expect(snapshots()).to.have.length(1));
    };
    await commit("a", { n: 1 });
    await untilSnapshot();
    await commit("a", { n: 2 });
    const seen = async () => {
      const { changes, kept } = await past("a");
      return [...changes.map(({ document }) => (document as { n: number }).n), kept?.isComplete];
    };
    expect(await seen()).to.deep.equal([1, 2, true]);
    await untilSnapshot();
    await eventually(async () => expect(await seen()).to.deep.equal([2, false]));
    await reopen();
    expect(await seen()).to.deep.equal([2, false]);
  });

  it("are read by one call at a time, until its signal aborts", async () => {
    await commit("a", { n: 1 });
    const first = past("a");
    await rejection(past("a"), ResourceExhaustedError);
    expect((await first).changes).to.have.length(1);
    const aborted = storage.pastChanges?.(
      { table: "hosts", key: "a", signal: AbortSignal.abort(new Error("late")) },
      () => {},
    );
    await rejection(aborted as Promise<unknown>, Error, "late");
    expect((await past("a")).changes).to.have.length(1);
  });

  it("end at a damaged journal, with its place", async () => {
    await commit("a", { n: 1 });
    await reopen();
    const path = join(folder, readdirSync(folder).find((name) => name.startsWith("journal")) as string);
    const bytes = readFileSync(path);
    bytes[bytes.length - 5] = (bytes.at(-5) as number) ^ 1;
    writeFileSync(path, bytes);
    await rejection(past("a"), InvalidStateError, "is damaged at byte");
  });
});

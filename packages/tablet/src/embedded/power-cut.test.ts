import { isDeepStrictEqual } from "node:util";
import { DiskFullError, UnavailableError } from "@diskmesh/domain";
import { ManualClock, rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { randomOf } from "../contract/random.js";
import { type Transaction, table } from "../documents/schema.js";
import type { EventLog } from "../storage/storage.js";
import { Tablet } from "../tablet.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import { openEmbeddedStorage } from "./embedded-storage.js";
import { openEmbeddedEventLog } from "./events/embedded-event-log.js";
import { PowerCutFiles } from "./testing/power-cut-files.js";

const FOLDER = "/state/registry";
const SEEDS = 25;
const LIVES = 8;

type Contents = Record<string, unknown>;

describe("a power cut or process crash", () => {
  it("preserves each acknowledged commit, and the one under way completely or not at all, in every life of a folder", async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const random = randomOf(seed);
      let files = new PowerCutFiles();
      let expected: Contents = {};
      let attempted: Contents | undefined;
      for (let life = 0; life < LIVES; life++) {
        files.callsLeft = life === LIVES - 1 ? Number.POSITIVE_INFINITY : Math.floor(random() * 250);
        const storage = new TrackedStorage(
          openEmbeddedStorage({ folder: FOLDER, files, exclusive: false, journalsBytesMin: 4_096 }),
        );
        try {
          const loaded = await loadedFrom(storage);
          if (attempted !== undefined && isDeepStrictEqual(loaded, attempted)) expected = attempted;
          expect(loaded, `seed ${seed}, life ${life}`).to.deep.equal(expected);
          attempted = undefined;
          for (let n = 0; n < 40; n++) {
            attempted = { ...expected };
            await storage.commit(randomCommit(random, attempted, `${life}-${n}`));
            expected = attempted;
          }
          attempted = undefined;
          await storage.close({ handOver: true });
        } catch (error) {
          if (files.callsLeft > 0) throw error;
        }
        files = random() < 0.3 ? files.afterKill() : files.afterCut(random);
      }
    }
  });

  it("preserves whole transactions of a tablet that lends its documents to snapshots while callers go on", async () => {
    for (let seed = 1; seed <= 8; seed++) {
      const random = randomOf(seed);
      let files = new PowerCutFiles();
      let acknowledged = 0;
      for (let life = 0; life < LIVES; life++) {
        const tablet = await openTablet(files);
        const n = await tablet.read(({ numbers }) => expectOneMoment([...numbers.entries()]));
        expect(n, `seed ${seed}, life ${life}`).to.be.at.least(acknowledged);
        files.callsLeft = Math.floor(random() * 150);
        const callers = Array.from({ length: 8 }, async () => {
          for (let call = 0; call < 20; call++) acknowledged = Math.max(acknowledged, await tablet.transact(countUp));
        });
        await Promise.allSettled(callers);
        await tablet.close().catch(() => {});
        files = random() < 0.3 ? files.afterKill() : files.afterCut(random);
      }
    }
  });

  it("preserves each acknowledged append and record of an event log", async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const random = randomOf(seed);
      let files = new PowerCutFiles();
      const acknowledged: string[] = [];
      const keys: string[] = [];
      let first = 0;
      for (let life = 0; life < LIVES; life++) {
        files.callsLeft = life === LIVES - 1 ? Number.POSITIVE_INFINITY : Math.floor(random() * 120);
        const log = openEmbeddedEventLog({ folder: "/state/events", files, exclusive: false, fileBytes: 8_000 });
        try {
          first = await expectKept(log, acknowledged, keys, first, `seed ${seed}, life ${life}`);
          for (let n = 0; n < 12; n++) {
            const lines = Array.from({ length: 1 + Math.floor(random() * 4) }, (_, i) =>
              `${life}-${n}-${i}`.repeat(200),
            );
            const next = await log.append("events", lines);
            acknowledged.length = next - lines.length;
            acknowledged.push(...lines);
            await log.addRecords([{ key: `done/${life}-${n}`, text: "x".repeat(700) }]);
            keys.push(`done/${life}-${n}`);
            if (random() < 0.1) {
              first = Math.max(first, Math.floor(random() * acknowledged.length));
              await log.trim("events", first);
            }
          }
          await log.close();
        } catch (error) {
          if (files.callsLeft > 0) throw error;
        }
        files = random() < 0.3 ? files.afterKill() : files.afterCut(random);
      }
    }
  });
});

describe("a disk of the embedded store", () => {
  const put = (key: string, text: string) => ({ table: "hosts", key, document: { text } });

  async function open(files: PowerCutFiles, options: object = {}, onTrouble?: (trouble?: string) => void) {
    const storage = new TrackedStorage(openEmbeddedStorage({ folder: FOLDER, files, exclusive: false, ...options }));
    await storage.claim({ writer: "writer", address: "" }, { onTrouble });
    await storage.load();
    return storage;
  }

  it("that is full fails the commit without a trace, and commits continue once there is room", async () => {
    const files = new PowerCutFiles();
    const storage = await open(files);
    await storage.commit([put("a", "first")]);
    for (const left of [0, 1, 9, 300]) {
      files.capacityBytes = Number.POSITIVE_INFINITY;
      files.capacityBytes = usedBytes(files) + left;
      const error = await rejection(storage.commit([put("a", "x".repeat(1_000))]), DiskFullError);
      expect(error.outcome).to.equal("not_done");
      expect(error.message).to.match(/^cannot write to the tablet: the disk that holds \/state\/registry is full/);
      files.capacityBytes = Number.POSITIVE_INFINITY;
      await storage.commit([put("b", `after ${left}`)]);
    }
    await storage.close({ handOver: true });
    const next = new TrackedStorage(openEmbeddedStorage({ folder: FOLDER, files, exclusive: false }));
    expect(await loadedFrom(next)).to.deep.equal({ "hosts/a": { text: "first" }, "hosts/b": { text: "after 300" } });
  });

  it("that fails a sync makes the outcome unknown, and the file is not used again", async () => {
    const files = new PowerCutFiles();
    const storage = await open(files);
    files.failNextSync = true;
    const error = await rejection(storage.commit([put("a", "first")]), UnavailableError);
    expect(error.outcome).to.equal("unknown");
    await rejection(storage.commit([put("a", "second")]), UnavailableError);
    await storage.close({ handOver: true });
    expect(await loadedFrom(await open(files))).to.deep.equal({});
  });

  for (const failures of [1, 2])
    it(`that fails ${failures} syncs of the folder for a new journal loses no acknowledged commit in a power cut`, async () => {
      for (let seed = 1; seed <= 10; seed++) {
        const files = new PowerCutFiles();
        const storage = await open(files);
        files.folderSyncsToFail = failures;
        await rejection(storage.claimAbove(7));
        const isDone = await storage.commit([put("a", "after")]).then(
          () => true,
          () => false,
        );
        expect(isDone).to.equal(failures === 1);
        const next = await open(files.afterCut(randomOf(seed)));
        const found: string[] = [];
        await next.load((_, key) => found.push(key));
        expect(found, `seed ${seed}`).to.deep.equal(isDone ? ["a"] : []);
      }
    });

  it("without room for a snapshot is reported by the leader, also when it is over, and commits go on", async () => {
    const files = new PowerCutFiles();
    const clock = new ManualClock();
    const troubles: (string | undefined)[] = [];
    const storage = await open(files, { clock, journalsBytesMin: 3_000 }, (trouble) => troubles.push(trouble));
    files.capacityBytes = usedBytes(files) + 6_000;
    for (let n = 0; n < 12; n++) await storage.commit([put(`h${n % 3}`, "x".repeat(300))]);
    await storage.renew();
    expect(troubles).to.have.length(1);
    expect(troubles[0])
      .to.contain("snapshot of the tablet in /state/registry failed")
      .and.to.contain("free space there");
    expect([...files.contents().keys()].join()).not.to.contain("snapshot");
    files.capacityBytes = Number.POSITIVE_INFINITY;
    await storage.renew();
    expect(troubles).to.have.length(1);
    await clock.passTo(60_001);
    await storage.renew();
    await storage.close({ handOver: true });
    expect(troubles.slice(1)).to.deep.equal([undefined]);
    expect([...files.contents().keys()].join()).to.contain("snapshot");
  });
});

function usedBytes(files: PowerCutFiles): number {
  return Array.from(files.contents().values()).reduce((sum, { length }) => sum + length, 0);
}

interface Counted {
  readonly id: string;
  readonly n: number;
  readonly text: string;
}

const schema = { numbers: table<Counted>()({ key: ({ id }) => id }) };
const KEPT = 20;

function openTablet(files: PowerCutFiles): Promise<Tablet<typeof schema>> {
  const storage = openEmbeddedStorage({ folder: FOLDER, files, exclusive: false, journalsBytesMin: 2_000 });
  return Tablet.open({ name: "registry", schema, storage, address: "" });
}

/**
 * Writes the same number to two documents and to one named after it, and deletes the oldest of the documents named
 * after numbers.
 */
function countUp({ numbers }: Transaction<typeof schema>): number {
  const n = (numbers.get("first")?.n ?? 0) + 1;
  for (const id of ["first", `${n}`, "last"]) numbers.put({ id, n, text: "x".repeat(n % 300) });
  numbers.delete(`${n - KEPT}`);
  return n;
}

/** Checks that all documents are of the same commit, and returns its number. */
function expectOneMoment(documents: readonly Counted[]): number {
  const n = documents.find(({ id }) => id === "first")?.n ?? 0;
  const expected = Array.from({ length: Math.min(n, KEPT) }, (_, back) => `${n - back}`);
  expect(documents.map(({ id }) => id)).to.have.members(n === 0 ? [] : ["first", "last", ...expected]);
  expect(documents.find(({ id }) => id === "last")?.n ?? 0).to.equal(n);
  return n;
}

async function loadedFrom(storage: TrackedStorage): Promise<Contents> {
  const contents: Contents = {};
  await storage.claim({ writer: "writer", address: "" });
  await storage.load((table, key, document) => (contents[`${table}/${key}`] = document));
  return contents;
}

/** Makes a random commit and applies it to `contents`. Each commit changes host a, so no two commits are equal. */
function randomCommit(random: () => number, contents: Contents, id: string) {
  const change = (table: string, key: string, document: object | null) => {
    if (document === null) delete contents[`${table}/${key}`];
    else contents[`${table}/${key}`] = document;
    return { table, key, document };
  };
  const changes = [change("hosts", "a", { id, text: "x".repeat(Math.floor(random() * 2_000)) })];
  for (let count = Math.floor(random() * 4); count > 0; count--)
    changes.push(change("devices", `d${Math.floor(random() * 9)}`, random() < 0.3 ? null : { id, count }));
  return changes;
}

/**
 * Checks the kept lines; resolves with the first index. An append that was interrupted may be present, and then counts
 * as done.
 */
async function expectKept(
  log: EventLog,
  acknowledged: string[],
  keys: readonly string[],
  trimmedTo: number,
  where: string,
): Promise<number> {
  const { first, next } = await log.bounds("events");
  expect(next, where).to.be.at.least(acknowledged.length);
  expect(first, where).to.be.at.most(trimmedTo);
  const { lines } = await log.read("events", { from: 0, limit: 10_000 });
  expect(lines.length, where).to.equal(next - first);
  expect(lines.slice(0, acknowledged.length - first), where).to.deep.equal(acknowledged.slice(first));
  const found = await log.readRecords({ prefix: "done/", limit: 10_000 });
  expect(
    found.map(({ key }) => key),
    where,
  ).to.include.members(keys as string[]);
  acknowledged.splice(first, acknowledged.length, ...lines);
  return Math.max(first, trimmedTo);
}

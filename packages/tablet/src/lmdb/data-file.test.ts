import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { rejection } from "@diskmesh/domain/testing";
import { leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { randomOf } from "../contract/random.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import { checkDataFile } from "./data-file.js";
import { openLmdbStorage } from "./lmdb-storage.js";
import type { OpenedChanged } from "./open-changed.js";

const OPEN_CHANGED = fileURLToPath(new URL("./open-changed.js", import.meta.url));
const COMMIT_AT_RANDOM = fileURLToPath(new URL("./commit-at-random.js", import.meta.url));
const PAGE = 4_096;
const HEAD = 24;

/** A data file whose latest snapshot a test damages. Positions are those of LMDB's file format. */
class DataFile {
  readonly bytes: Buffer;
  /** Where the later of the two meta pages is. */
  readonly meta: number;

  constructor(bytes: Buffer) {
    this.bytes = Buffer.from(bytes);
    this.meta = this.number(152) > this.number(PAGE + 152) ? 0 : PAGE;
  }

  number(at: number): number {
    return Number(this.bytes.readBigInt64LE(at));
  }

  set(at: number, value: number): void {
    this.bytes.writeBigInt64LE(BigInt(value), at);
  }

  /** Where the topmost page of the free pages, or of the tables' names, is. */
  get free(): number {
    return this.number(this.meta + 88) * PAGE;
  }

  get names(): number {
    return this.number(this.meta + 136) * PAGE;
  }

  /** Where an entry of a page is. */
  entry(page: number, index: number): number {
    return page + HEAD + this.bytes.readUInt16LE(page + HEAD + 2 * index);
  }

  value(entry: number): number {
    return entry + 8 + this.bytes.readUInt16LE(entry + 6);
  }

  /** What the name of the first table refers to; the first name is that of the meta database. */
  get table(): number {
    return this.value(this.entry(this.names, 1));
  }

  /** The branch page of that table, and its second leaf. */
  get branch(): number {
    return this.number(this.table + 40) * PAGE;
  }

  get leaf(): number {
    return this.bytes.readUInt32LE(this.entry(this.branch, 1)) * PAGE;
  }

  /** The entry of the large value in the second table, which is one leaf, and its pages. */
  get largeEntry(): number {
    return this.entry(this.number(this.value(this.entry(this.names, 2)) + 40) * PAGE, 0);
  }

  get large(): number {
    return this.number(this.value(this.largeEntry)) * PAGE;
  }

  /** A list of free pages, and the place of one of them in it. */
  get freeList(): number {
    return this.value(this.entry(this.free, 0));
  }

  get freePage(): number {
    let at = this.freeList + 8;
    while (this.number(at) <= 0 || this.number(at - 8) < 0) at += 8;
    return at;
  }
}

describe("the check of a data file", () => {
  let folder: string;
  let path: string;
  let sound: Buffer;

  beforeEach(async () => {
    folder = temporaryFolder();
    path = join(folder, "data.mdb");
    const storage = new TrackedStorage(openLmdbStorage({ folder }));
    await storage.claim({ writer: "writer", address: "127.0.0.1:1" });
    await storage.load();
    const device = (index: number, text: string | undefined) => ({
      table: "devices",
      key: `key${index}`,
      document: text === undefined ? null : { text },
    });
    const host = (key: string, text: string) => ({ table: "hosts", key, document: { text } });
    const devices = Array.from({ length: 40 }, (_, index) => device(index, "x".repeat(300)));
    await storage.commit([...devices, host("large", "x".repeat(9_000)), host("small", "a")]);
    await storage.commit(Array.from({ length: 8 }, (_, index) => device(index, undefined)));
    await storage.commit([host("small", "b")]);
    await storage.close({ handOver: true });
    sound = readFileSync(path);
  });

  function writeBytes(bytes: Buffer, at: number): void {
    const file = openSync(path, "r+");
    writeSync(file, bytes, 0, bytes.length, at);
    closeSync(file);
  }

  const cases: Readonly<Record<string, { readonly damage: (file: DataFile) => void; readonly reason: string }>> = {
    "that is another file": { damage: ({ bytes }) => bytes.fill("text", 0, 200), reason: "not a database file" },
    "whose older meta page is none": {
      damage: ({ bytes, meta }) => bytes.writeUInt32LE(0, (meta === 0 ? PAGE : 0) + 24),
      reason: "page",
    },
    "that claims to be encrypted in its first page": {
      damage: ({ bytes }) => bytes.writeUInt8(0x20, 53),
      reason: "page 0 is damaged",
    },
    "with pages of a strange size": {
      damage: ({ bytes }) => bytes.writeUInt32LE(5_000, 48),
      reason: "pages of 5000 bytes",
    },
    "whose latest transaction has a number that is too low": {
      damage: (file) => file.set(file.meta + 152, file.number(file.meta + 152) - 4),
      reason: "pages 0 and 1 are of transactions",
    },
    "whose two transactions have numbers that are too high": {
      damage: (file) => {
        for (const at of [152, PAGE + 152]) file.set(at, file.number(at) + 2);
      },
      reason: "its latest pages are of",
    },
    "with more pages than it could have": {
      damage: (file) => file.set(file.meta + 144, 2 ** 30),
      reason: "and by this page",
    },
    "with fewer pages than it uses": {
      damage: (file) => file.set(file.meta + 144, 3),
      reason: "which the file does not have",
    },
    "whose tables are sorted in another way": {
      damage: ({ bytes, meta }) => bytes.writeUInt16LE(2, meta + 100),
      reason: "sorted in another way",
    },
    "with one table that is sorted in another way": {
      damage: ({ bytes, table }) => bytes.writeUInt16LE(4, table + 4),
      reason: "sorted in another way",
    },
    "with a tree of another depth": {
      damage: ({ bytes, table }) => bytes.writeUInt16LE(3, table + 6),
      reason: "its head",
    },
    "with a tree that has no depth": {
      damage: ({ bytes, table }) => bytes.writeUInt16LE(0, table + 6),
      reason: "depth 0",
    },
    "with another count of entries": {
      damage: (file) => file.set(file.table + 32, 31),
      reason: "32 entries, and by page",
    },
    "with a page that says that it is another": { damage: (file) => file.set(file.leaf, 3), reason: "its head" },
    "with a page of a later transaction": {
      damage: (file) => file.set(file.leaf + 8, 1_000),
      reason: "of transaction 1000",
    },
    "with a leaf that holds values of a fixed size": {
      damage: ({ bytes, leaf }) => bytes.writeUInt16LE(0x22, leaf + 18),
      reason: "its head",
    },
    "with more entries than the page has room for": {
      damage: ({ bytes, leaf }) => bytes.writeUInt16LE(5_000, leaf + 20),
      reason: "not within it",
    },
    "with an entry less": {
      damage: ({ bytes, leaf }) => bytes.writeUInt16LE(bytes.readUInt16LE(leaf + 20) - 2, leaf + 20),
      reason: "overlap, or have gaps",
    },
    "with two entries in one place": {
      damage: ({ bytes, leaf }) => bytes.copy(bytes, leaf + HEAD, leaf + HEAD + 2, leaf + HEAD + 4),
      reason: "out of order",
    },
    "with an entry that reaches into the next": {
      damage: (file) =>
        file.bytes.writeUInt8(file.bytes.readUInt8(file.entry(file.leaf, 1)) + 2, file.entry(file.leaf, 1)),
      reason: "overlap",
    },
    "with a key that is too long": {
      damage: (file) => file.bytes.writeUInt16LE(60_000, file.entry(file.leaf, 0) + 6),
      reason: "a key of 60000 bytes",
    },
    "with keys out of order": {
      damage: (file) => file.bytes.write("z", file.entry(file.leaf, 0) + 8),
      reason: "out of order",
    },
    "with keys on a page where others belong": {
      damage: (file) => file.bytes.write("a", file.entry(file.leaf, 0) + 8),
      reason: "out of order",
    },
    "with a page that two refer to": {
      damage: (file) => file.set(file.value(file.entry(file.names, 2)) + 40, file.branch / PAGE),
      reason: "in use twice",
    },
    "with a page beyond its end": {
      damage: (file) => file.bytes.writeUInt32LE(999, file.entry(file.branch, 0)),
      reason: "which the file does not have",
    },
    "with a large value in fewer pages than it needs": {
      damage: (file) => file.bytes.writeUInt32LE(900_000, file.largeEntry),
      reason: "a value of 900000 bytes in 3 pages",
    },
    "with a large value that has other pages": {
      damage: (file) => file.bytes.writeUInt32LE(2, file.large + 20),
      reason: "not the first of 3 pages",
    },
    "with a page that is free and in use": {
      damage: (file) => file.set(file.freePage, file.leaf / PAGE),
      reason: "in use twice",
    },
    "with a free page beyond its end": {
      damage: (file) => file.set(file.freePage, 999),
      reason: "free pages from page 999 on",
    },
    "with a list of free pages that is longer than its entry": {
      damage: (file) => file.set(file.freeList, 10_000),
      reason: "it lists 10000 free pages",
    },
    "with free pages of a later transaction": {
      damage: (file) => file.set(file.entry(file.free, 0) + 8, 1_000),
      reason: "that transaction 1000 freed",
    },
  };
  for (const [what, { damage, reason }] of Object.entries(cases)) {
    it(`refuses one ${what}`, async () => {
      const file = new DataFile(sound);
      damage(file);
      writeFileSync(path, file.bytes);
      const error = await rejection(checkDataFile(path));
      expect(error.message)
        .to.match(/^data\.mdb is (damaged|not a database file)/)
        .and.to.contain(reason);
      // The same while the entries are read.
      expect((await rejection(checkDataFile(path, () => {}))).message).to.equal(error.message);
    });
  }

  it("lets nothing through that ends a process, whatever byte of its pages is changed", async function () {
    leaveToVerify(this);
    const file = new DataFile(sound);
    const random = randomOf(4_711);
    const opener = new Opener();
    const expected = await opener.open(folder);
    const outcomes = { refused: 0, opened: 0 };
    // The first opening wrote to it.
    writeFileSync(path, sound);
    for (const page of [0, PAGE, file.names, file.free, file.branch, file.leaf, file.large]) {
      let letThrough = 0;
      for (let at = page; at < page + PAGE; at++) {
        const byte = Buffer.from([sound.readUInt8(at) ^ (1 + Math.floor(random() * 255))]);
        writeBytes(byte, at);
        const error = await checkDataFile(path).catch((reason) => reason as Error);
        letThrough = error === undefined ? letThrough + 1 : 0;
        // What LMDB has no use for is long: values and room for more. A part of it is enough.
        if (letThrough === 0 || (letThrough > 3 && letThrough % 200 > 0)) {
          writeBytes(sound.subarray(at, at + 1), at);
          continue;
        }
        const opened = await opener.open(folder);
        const what = `byte ${at - page} of page ${page / PAGE}: ${opened.refusal}`;
        if (opened.documents === undefined) expect(opened.refusal, what).to.match(/^InvalidStateError.*restore/s);
        else expect(opened.documents, what).to.equal(expected.documents);
        outcomes[opened.documents === undefined ? "refused" : "opened"]++;
        // What it wrote is sound, too: damage that is let through does no harm later.
        if (opened.documents !== undefined) await checkDataFile(path);
        writeFileSync(path, sound);
      }
    }
    opener.end();
    expect(outcomes.refused).to.be.greaterThan(0);
    expect(outcomes.opened).to.be.greaterThan(0);
  });

  it("lets a file through that is shorter than it says, as LMDB leaves it when it freed the last pages unwritten", async () => {
    const opener = new Opener();
    const expected = await opener.open(folder);
    const file = new DataFile(sound);
    file.set(file.meta + 144, file.number(file.meta + 144) + 5);
    writeFileSync(path, file.bytes);
    await checkDataFile(path);
    expect(await opener.open(folder)).to.deep.equal(expected);
    await checkDataFile(path);
    opener.end();
  });

  it("lets every file through that LMDB wrote, whenever its process was killed", async () => {
    rmSync(folder, { recursive: true });
    mkdirSync(folder);
    const random = randomOf(4_711);
    let killed = 0;
    for (let life = 0; life < 12; life++) {
      const child = spawn(process.execPath, [COMMIT_AT_RANDOM, folder, `${life}`, "15"], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const lastCommit = Math.floor(random() * 20);
      let commits = 0;
      child.stdout.on("data", (said: Buffer) => {
        commits += said.toString().split("\n").length - 1;
        if (commits > lastCommit) child.kill("SIGKILL");
      });
      const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
      expect(signal ?? code).to.be.oneOf([0, "SIGKILL"]);
      if (signal !== null) killed++;
      await checkDataFile(path);
    }
    expect(killed).to.be.within(1, 11);
  });
});

/** Opens folders in a process of its own, as one that is damaged may end it. */
class Opener {
  #child: ChildProcess | undefined;

  open(folder: string): Promise<OpenedChanged> {
    this.#child ??= fork(OPEN_CHANGED);
    const child = this.#child;
    return new Promise((resolve) => {
      const onExit = (code: number | null, signal: NodeJS.Signals | null): void => {
        this.#child = undefined;
        resolve({ refusal: `it ended the process: ${signal ?? code}` });
      };
      child.once("exit", onExit);
      child.once("message", (opened: OpenedChanged) => {
        child.off("exit", onExit);
        resolve(opened);
      });
      child.send(folder);
    });
  }

  end(): void {
    this.#child?.disconnect();
  }
}

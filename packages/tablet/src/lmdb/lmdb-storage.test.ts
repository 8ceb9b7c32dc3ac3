import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readdir, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { storageContract } from "../contract/storage-contract.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import { openLmdbEventLog } from "./lmdb-event-log.js";
import { openLmdbStorage } from "./lmdb-storage.js";
import { openLocation } from "./test-location.js";

const open = (folder: string): TrackedStorage => new TrackedStorage(openLmdbStorage({ folder }));

const LEADER = { writer: "writer", address: "127.0.0.1:1" };

storageContract("LMDB", async () => {
  const folder = await mkdtemp(join(tmpdir(), "diskmesh-lmdb-"));
  return {
    open: () => openLocation(folder),
    moduleUrl: new URL("./test-location.js", import.meta.url).href,
    argument: folder,
    remove: () => rm(folder, { recursive: true }),
  };
});

describe("LMDB storage", () => {
  let parent: string;
  let folder: string;

  beforeEach(async () => {
    parent = await mkdtemp(join(tmpdir(), "diskmesh-lmdb-"));
    // with a dot: LMDB's binding would take it for a file
    folder = join(parent, "state", "registry.v1");
  });

  afterEach(() => rm(parent, { recursive: true }));

  it("makes the folder and its files for their owner only, also those of a store that others could read", async () => {
    for (let round = 0; round < 2; round++) {
      const storage = open(folder);
      await storage.claim(LEADER);
      await storage.close({ handOver: true });
      expect(await readdir(folder)).to.have.members(["data.mdb", "lock.mdb", "owner.lock", "holds-data"]);
      const modes = await Promise.all((await readdir(folder)).map((name) => stat(join(folder, name))));
      expect(modes.map(({ mode }) => mode & 0o777)).to.deep.equal([0o600, 0o600, 0o600, 0o600]);
      expect((await stat(folder)).mode & 0o777).to.equal(0o700);
      await chmod(join(folder, "data.mdb"), 0o644);
    }
  });

  it("keeps a second claim out while the first is open, and names the process", async () => {
    const first = open(folder);
    await first.claim(LEADER);
    const second = open(folder);
    const error = await rejection(second.claim(LEADER), UnavailableError);
    expect(error.message).to.contain(folder).and.to.contain(`process ${process.pid}`);
    await first.load();
    await first.commit([{ table: "hosts", key: "h", document: {} }]);
    await first.close({ handOver: true });
    expect((await second.claim(LEADER)).generation).to.equal(2);
    await second.close({ handOver: true });
  });

  it("opens at once after its process was killed", async () => {
    const child = spawn(process.execPath, [CHILD, folder]);
    await once(child.stdout, "data");
    await rejection(open(folder).claim(LEADER), Error, `process ${child.pid}`);
    child.kill("SIGKILL");
    await once(child, "exit");
    const storage = open(folder);
    expect((await storage.claim(LEADER)).generation).to.equal(2);
    await storage.close({ handOver: true });
  });

  for (const [cause, previous, isThere, says] of [
    ["a document that is gone", { document: {}, version: 1 }, false, 'document "h" is missing'],
    ["one that nobody committed", null, true, 'document "h" is there, and was never committed'],
  ] as const)
    it(`refuses a commit that meets ${cause}, and changes nothing`, async () => {
      const storage = open(folder);
      await storage.claim(LEADER);
      await storage.load();
      if (isThere) await storage.commit([{ table: "hosts", key: "h", document: { n: 1 } }]);
      const change = { table: "hosts", key: "h", document: { n: 2 }, version: 1, previous };
      const error = await rejection(storage.inner.commit([change]), InvalidStateError);
      expect(error.message).to.contain("is not whole: table hosts, ").and.to.contain(says);
      await storage.close({ handOver: true });
      const contents: object[] = [];
      const next = open(folder);
      await next.claim(LEADER);
      await next.load((_table, _key, document) => contents.push(document));
      expect(contents).to.deep.equal(isThere ? [{ n: 1 }] : []);
      await next.close({ handOver: true });
    });

  it("undoes a commit that fails half way", async () => {
    const storage = open(folder);
    await storage.claim(LEADER);
    await storage.load();
    const document = {};
    const changes = ["before", "k".repeat(3_000), "after"].map((key) => ({ table: "hosts", key, document }));
    await rejection(storage.commit(changes), Error, "larger than the maximum key size");
    const keys: string[] = [];
    await storage.load((_, key) => keys.push(key));
    await storage.close({ handOver: true });
    expect(keys).to.deep.equal([]);
  });

  describe("says which folder is not a tablet's", () => {
    it("when a file is in its place", async () => {
      await writeFile(join(parent, "file"), "hello");
      await expectRefusal(join(parent, "file"), "EEXIST");
    });

    it("when the data file is something else", async () => {
      for (const content of [Buffer.alloc(100_000, "z"), Buffer.from("z"), Buffer.alloc(8192)]) {
        await makeTablet();
        await writeFile(join(folder, "data.mdb"), content);
        await expectRefusal(folder, "data.mdb is not a database file");
      }
    });

    it("when the data file ends in its header", async () => {
      await makeTablet(2_000);
      await truncate(join(folder, "data.mdb"), 5_000);
      await expectRefusal(folder, "");
    });

    // A process of its own: lmdb may also fail in a promise that nobody holds, which ends the process.
    for (const sizeBytes of [8_192, 50_000, 200_000])
      it(`by never serving it when the data file is cut off after ${sizeBytes} bytes`, async () => {
        await makeTablet(2_000);
        await truncate(join(folder, "data.mdb"), sizeBytes);
        const child = spawn(process.execPath, [OPEN, folder]);
        let output = "";
        for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
        const [code] = await once(child, "close");
        expect(code, output).to.be.above(0);
        expect(output).not.to.contain("serves");
      });

    it("when it holds an event log, and the other way round", async () => {
      const log = openLmdbEventLog({ folder });
      await log.append("task-1", ["line"]);
      await log.close();
      await expectRefusal(folder, 'it holds "diskmesh event log 1"');
      await makeTablet(1, join(parent, "tablet"));
      await rejection(
        openLmdbEventLog({ folder: join(parent, "tablet") }).append("task-1", ["line"]),
        InvalidStateError,
        'it holds "diskmesh tablet 2"',
      );
    });
  });

  async function makeTablet(documents = 1, at = folder): Promise<void> {
    await rm(at, { recursive: true, force: true });
    const storage = open(at);
    await storage.claim(LEADER);
    await storage.load();
    const changes = Array.from({ length: documents }, (_, i) => ({
      table: "hosts",
      key: `h${i}`,
      document: { text: "x".repeat(300) },
    }));
    await storage.commit(changes);
    await storage.close({ handOver: true });
  }

  /** Whether it is found at the claim or at the load does not matter, as long as it is an error. */
  async function expectRefusal(at: string, reason: string): Promise<void> {
    const storage = open(at);
    const error = await rejection(storage.claim(LEADER).then(() => storage.load(() => {})));
    await storage.close({ handOver: true });
    expect(error).to.be.instanceOf(InvalidStateError);
    expect(error.message).to.contain(at).and.to.contain(reason);
  }
});

const OPEN = fileURLToPath(new URL("./open-and-print.js", import.meta.url));
const CHILD = fileURLToPath(new URL("./claim-and-wait.js", import.meta.url));

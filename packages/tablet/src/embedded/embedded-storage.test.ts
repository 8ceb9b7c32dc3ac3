import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { storageContract } from "../contract/storage-contract.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import { openEmbeddedStorage } from "./embedded-storage.js";
import { type Files, systemFiles } from "./files.js";
import { lineOf } from "./lines.js";
import { PowerCutFiles } from "./testing/power-cut-files.js";
import { openLocation, openWithSnapshots } from "./testing/test-location.js";

const LEADER = { writer: "writer", address: "127.0.0.1:1" };
const CHILD = fileURLToPath(new URL("./testing/claim-and-wait.js", import.meta.url));

storageContract("embedded", async () => {
  const folder = temporaryFolder();
  const moduleUrl = new URL("./testing/test-location.js", import.meta.url).href;
  return { open: () => openLocation(folder), moduleUrl, argument: folder, remove: async () => {} };
});

storageContract("embedded, with a snapshot every few commits", async () => {
  const folder = temporaryFolder();
  const moduleUrl = new URL("./testing/test-location-snapshots.js", import.meta.url).href;
  return { open: () => openWithSnapshots(folder), moduleUrl, argument: folder, remove: async () => {} };
});

describe("the embedded storage", () => {
  let folder: string;

  beforeEach(() => {
    folder = join(temporaryFolder(), "state", "registry.v1");
  });

  const put = (key: string, document: object) => ({ table: "hosts", key, document });
  const journal = (n: number) => join(folder, `journal.${String(n).padStart(16, "0")}`);
  const files = () =>
    readdirSync(folder)
      .map((name) => name.replace(/\.0+/, "."))
      .sort();

  async function open(journalsBytesMin?: number): Promise<TrackedStorage> {
    const storage = new TrackedStorage(
      openEmbeddedStorage({ folder, ...(journalsBytesMin !== undefined && { journalsBytesMin }) }),
    );
    try {
      await storage.claim(LEADER);
      await storage.load();
      return storage;
    } catch (error) {
      await storage.close({ handOver: true });
      throw error;
    }
  }

  async function contents(): Promise<Record<string, object>> {
    const found: Record<string, object> = {};
    const storage = new TrackedStorage(openEmbeddedStorage({ folder }));
    try {
      await storage.claim(LEADER);
      await storage.load((table, key, document) => (found[`${table}/${key}`] = document));
      return found;
    } finally {
      await storage.close({ handOver: true });
    }
  }

  async function makeTablet(documents = 3): Promise<void> {
    const storage = await open();
    for (let n = 0; n < documents; n++) await storage.commit([put(`h${n}`, { n })]);
    await storage.close({ handOver: true });
  }

  it("makes its folder and files private to their owner, with lines that jq can read", async () => {
    await makeTablet(1);
    expect(files()).to.deep.equal(["end.1", "holds-data", "journal.1", "owner.lock", "reserve"]);
    for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o777, name).to.equal(0o600);
    expect(statSync(folder).mode & 0o777).to.equal(0o700);
    const [head, commit] = readFileSync(journal(1), "utf8")
      .split("\n")
      .map((line) => line.slice(9));
    expect(JSON.parse(head ?? "")).to.deep.include({ kind: "journal", number: 1, format: "diskmesh tablet 4" });
    expect(commit).to.match(/^\[\["hosts","h0",1,\{"n":0\},\d{13}\]\]$/);
  });

  it("refuses a second claim while the first is open, and names the process", async () => {
    const first = await open();
    const second = new TrackedStorage(openEmbeddedStorage({ folder }));
    const error = await rejection(second.claim(LEADER), UnavailableError);
    expect(error.message).to.contain(folder).and.to.contain(`process ${process.pid}`);
    await first.commit([put("h", {})]);
    await first.close({ handOver: true });
    expect((await second.claim(LEADER)).generation).to.equal(2);
    await second.close({ handOver: true });
  });

  it("opens at once after its process was killed", async () => {
    const child = spawn(process.execPath, [CHILD, folder]);
    await once(child.stdout, "data");
    await rejection(open(), UnavailableError, `process ${child.pid}`);
    child.kill("SIGKILL");
    await once(child, "exit");
    await (await open()).close({ handOver: true });
  });

  it("replaces the journals by a snapshot while commits go on, and loads both", async () => {
    let storage = await open(2_000);
    for (let n = 0; n < 200; n++) await storage.commit([put(`h${n % 9}`, { n, text: "x".repeat(100) })]);
    await eventually(async () => expect(files().join()).to.match(/snapshot\.\d+$/));
    await storage.close({ handOver: true });
    expect(files().filter((name) => name.startsWith("snapshot"))).to.have.length(1);
    expect(files()).not.to.include("journal.1");
    const found = await contents();
    for (let n = 191; n < 200; n++) expect(found[`hosts/h${n % 9}`]).to.deep.include({ n });
    // After a snapshot, documents of older journals must not reappear.
    storage = await open(2_000);
    await storage.commit([{ table: "hosts", key: "h3", document: null }]);
    await storage.close({ handOver: true });
    expect(await contents()).not.to.have.property("hosts/h3");
  });

  it("writes a snapshot in small pieces, so that commits run between them", async () => {
    const written: number[] = [];
    const open = async (...[path, flags]: Parameters<Files["open"]>) => {
      const file = await systemFiles.open(path, flags);
      if (!path.endsWith(".draft")) return file;
      const appendFile = (bytes: Buffer) => file.appendFile(bytes).then(() => void written.push(bytes.length));
      return Object.assign(Object.create(file), { appendFile }) as typeof file;
    };
    const storage = new TrackedStorage(
      openEmbeddedStorage({ folder, files: { ...systemFiles, open }, journalsBytesMin: 100_000 }),
    );
    await storage.claim(LEADER);
    await storage.load();
    for (let n = 0; n < 200; n++) await storage.commit([put(`h${n}`, { text: "x".repeat(1_000) })]);
    await eventually(() => expect(files().join()).to.match(/snapshot\.\d+$/));
    await storage.close({ handOver: true });
    expect(Math.max(...written)).to.be.within(1_000, 20_000);
  });

  it("recognizes a journal that it begins itself during a renewal", async () => {
    const storage = await open();
    let isOver = false;
    const claims = async () => {
      for (let n = 1; n <= 20; n++) await storage.claimAbove(n);
    };
    const claiming = claims().finally(() => {
      isOver = true;
    });
    while (!isOver) await Promise.all([storage.renew(), new Promise(setImmediate)]);
    await claiming;
    await storage.close({ handOver: true });
  });

  it("makes a snapshot after fifty starts, so that a start reads a bounded number of files", async () => {
    const files = new PowerCutFiles();
    const snapshots = () => [...files.contents().keys()].filter((name) => /^snapshot\.\d+$/.test(name));
    for (let start = 0; start <= 50; start++) {
      const storage = new TrackedStorage(openEmbeddedStorage({ folder: "/state", files, exclusive: false }));
      await storage.claim(LEADER);
      await storage.load();
      await storage.commit([put(`h${start}`, {})]);
      if (start === 50) await eventually(async () => expect(snapshots()).to.have.length(1));
      await storage.close({ handOver: true });
    }
    const found: string[] = [];
    const storage = new TrackedStorage(openEmbeddedStorage({ folder: "/state", files, exclusive: false }));
    await storage.claim(LEADER);
    await storage.load((_, key) => found.push(key));
    expect(found).to.have.length(51);
  });

  it("reports to the leader that its journal was deleted or replaced", async () => {
    const storage = await open();
    const bytes = readFileSync(journal(1));
    rmSync(journal(1));
    await rejection(storage.renew(), InvalidStateError, "was deleted");
    writeFileSync(journal(1), bytes);
    await rejection(storage.renew(), InvalidStateError, "was replaced");
    await storage.close({ handOver: true });
  });

  describe("refuses", () => {
    const refused = async (...words: readonly string[]) => {
      const error = await rejection(open(), InvalidStateError);
      for (const word of [folder, ...words]) expect(error.message).to.contain(word);
    };

    it("an empty folder that has held a tablet", async () => {
      await makeTablet();
      for (const name of readdirSync(folder)) if (name !== "holds-data") rmSync(join(folder, name));
      await refused("its journals are missing", "restore a backup");
    });

    it("a missing journal, snapshot or end file", async () => {
      const storage = await open(500);
      // With the first journal, which the second snapshot removes, nothing is lost without a snapshot.
      for (let n = 0; existsSync(journal(1)); n++) await storage.commit([put(`h${n}`, { text: "x".repeat(100) })]);
      await storage.close({ handOver: true });
      await (await open()).close({ handOver: true });
      // Journals before the snapshot hold only the history of changes.
      const names = readdirSync(folder).filter((each) => /^(journal|snapshot)\./.test(each));
      const numberOf = (name: string) => Number(name.split(".")[1]);
      const newest = Math.max(...names.filter((each) => each.startsWith("snapshot")).map(numberOf));
      const needed = names.filter((each) => numberOf(each) >= newest);
      for (const name of needed) {
        const bytes = readFileSync(join(folder, name));
        rmSync(join(folder, name));
        await refused("missing", "restore a backup");
        writeFileSync(join(folder, name), bytes);
      }
      await (await open()).close({ handOver: true });
    });

    it("a journal that was truncated after it was closed", async () => {
      await makeTablet();
      truncateSync(journal(1), statSync(journal(1)).size - 40);
      await refused("journal.", "is damaged at byte");
    });

    it("a newer format, before any change", async () => {
      await makeTablet();
      writeFileSync(journal(9), lineOf({ kind: "journal", number: 9, format: "diskmesh tablet 5" }));
      const before = files();
      await refused("written by a newer diskmesh", "its format is 5, but this program supports at most 4");
      expect(files()).to.deep.equal(before);
    });

    it("a file in place of the folder", async () => {
      folder = join(temporaryFolder(), "file");
      writeFileSync(folder, "hello");
      await refused("ENOTDIR");
    });
  });
});

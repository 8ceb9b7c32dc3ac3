import { readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DomainError, InvalidArgumentError, InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { leaveToVerify, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { type StoredDocument, table } from "../documents/schema.js";
import { documentDatabase } from "../mongo/testing/document-database.js";
import { databaseUrl, newTabletName, removeTablet } from "../mongo/testing/test-location.js";
import { openStorage } from "../open-storage.js";
import { Tablet } from "../tablet.js";
import { backupPieces } from "./backup-file.js";
import { restoreBackup } from "./restore.js";

interface Host {
  readonly id: string;
  readonly n: number;
}

const schema = {
  hosts: table<Host>()({ key: ({ id }) => id, check: (host) => ("n" in host ? undefined : "n: expected a number") }),
  counters: table<Host>()({ key: ({ id }) => id, onRestore: (counter, step) => ({ ...counter, n: counter.n + step }) }),
};
type TestTablet = Tablet<typeof schema>;

const HOSTS = 2_000;
/** Generous, because a busy machine delays renewals. */
const LEASE = { leaseTimeMs: 3_000, safeLeaseTimeMs: 2_500 };

describe("backup and restore", () => {
  const tabletName = newTabletName();
  let database: string | undefined;
  let folder: string;
  let file: string;

  before(async () => {
    const found = await documentDatabase();
    if (typeof found !== "string") database = databaseUrl(found.url);
  });

  beforeEach(() => {
    folder = temporaryFolder();
    file = join(folder, "backup");
  });

  afterEach(async () => {
    if (database !== undefined) await removeTablet(database, tabletName);
  });

  function open(url: string): Promise<TestTablet> {
    const storage = openStorage(url, tabletName, { mongo: LEASE });
    return Tablet.open({ name: tabletName, schema, storage, address: "127.0.0.1:9", limits: { renewIntervalMs: 300 } });
  }

  async function make(url: string): Promise<TestTablet> {
    const tablet = await open(url);
    await tablet.transact((tx) => {
      for (let n = 0; n < HOSTS; n++) tx.hosts.put({ id: `h${n}`, n });
      tx.counters.put({ id: "c", n: 7 });
    });
    return tablet;
  }

  async function backUp(tablet: TestTablet, whileItRuns: () => Promise<unknown> = async () => {}): Promise<void> {
    const pieces: string[] = [];
    for await (const piece of tablet.backup(1)) {
      pieces.push(piece);
      await whileItRuns();
    }
    writeFileSync(file, pieces.join(""));
  }

  function restore(url: string, replace = false) {
    const storage = openStorage(url, tabletName, { mongo: LEASE });
    return restoreBackup({ file, schema, storage, tabletName, replace, leaderWaitMs: LEASE.leaseTimeMs + 2_000 });
  }

  async function contents(
    tablet: TestTablet,
  ): Promise<{ hosts: number; changed: number; counter: number | undefined }> {
    return tablet.read(({ hosts, counters }) => ({
      hosts: hosts.size,
      changed: [...hosts.entries()].filter(({ id, n }) => id !== `h${n}`).length,
      counter: counters.get("c")?.n,
    }));
  }

  const ways: readonly (readonly [from: "a folder" | "a database", to: "a folder" | "a database"])[] = [
    ["a folder", "a folder"],
    ["a folder", "a database"],
    ["a database", "a folder"],
    ["a database", "a database"],
  ];
  for (const [from, to] of ways) {
    it(`backs up the state of one moment during commits, from ${from} into ${to}`, async function () {
      if (from !== to || from === "a database") if (database === undefined) return skipBecause(this, "no database");
      const urlOf = (which: string, name: string) => (which === "a folder" ? join(folder, name) : (database as string));
      const tablet = await make(urlOf(from, "from"));
      const { id, incarnation, generation } = tablet;
      let late = 0;
      await backUp(tablet, () =>
        tablet.transact((tx) => {
          late++;
          tx.hosts.put({ id: "h1", n: -late });
          tx.hosts.put({ id: `late-${late}`, n: 0 });
          tx.counters.put({ id: "c", n: 7 + late });
        }),
      );
      expect(late).to.be.above(0);
      await tablet.close();
      const restored = await restore(urlOf(to, "to"), from === to && from === "a database");
      expect(restored.documents).to.equal(HOSTS + 1);
      await using next = await open(urlOf(to, "to"));
      expect(await contents(next)).to.deep.equal({ hosts: HOSTS, changed: 0, counter: 7 + 2 ** 32 });
      expect([next.id, next.parentIncarnations]).to.deep.equal([id, [incarnation]]);
      expect(next.incarnation).to.equal(restored.incarnation).and.not.to.equal(incarnation);
      expect(next.generation).to.be.above(generation + 2 ** 20);
      await next.transact((tx) => tx.hosts.delete("h1"));
    });
  }

  it("keeps characters that other formats take for line ends", async () => {
    const id = "\u0085 \u2028 \u2029 \r \n";
    await using tablet = await open(join(folder, "from"));
    await tablet.transact((tx) => tx.hosts.put({ id, n: 1 }));
    await backUp(tablet);
    await restore(join(folder, "to"));
    await using restored = await open(join(folder, "to"));
    expect(await restored.read(({ hosts }) => hosts.get(id))).to.deep.equal({ id, n: 1 });
  });

  it("lists all parent incarnations of a tablet, nearest first", async function () {
    leaveToVerify(this);
    let tablet = await make(join(folder, "0"));
    const incarnations = [tablet.incarnation];
    for (let n = 1; n < 4; n++) {
      await backUp(tablet);
      await tablet.close();
      await restore(join(folder, `${n}`));
      tablet = await open(join(folder, `${n}`));
      expect(tablet.parentIncarnations).to.deep.equal(incarnations);
      incarnations.unshift(tablet.incarnation);
    }
    await tablet.close();
  });

  it("refuses a storage that is in use, or not empty unless it is to be replaced", async () => {
    for (const url of [join(folder, "to"), ...(database === undefined ? [] : [database])]) {
      const tablet = await make(url);
      await backUp(tablet);
      await rejection(restore(url, true), UnavailableError);
      await tablet.transact((tx) => tx.hosts.put({ id: "h5", n: 0 }));
      await tablet.close();
      const error = await rejection(restore(url), InvalidStateError);
      expect(error.message).to.contain("is not empty").and.to.contain("--replace");
      const untouched = await open(url);
      expect(await contents(untouched)).to.include({ changed: 1 });
      await untouched.close();
      await restore(url, true);
      await using next = await open(url);
      expect(await contents(next)).to.deep.equal({ hosts: HOSTS, changed: 0, counter: 7 + 2 ** 32 });
    }
  });

  it("leaves a storage unchanged when the backup holds content that this version cannot use", async () => {
    const unusable: Record<string, StoredDocument> = {
      "unknown table": { table: "others", key: "o", version: 1, document: {} },
      "newer version": { table: "hosts", key: "h9", version: 2, document: { id: "h9", n: 9 } },
      "another shape": { table: "hosts", key: "h9", version: 1, document: { id: "h9" } },
    };
    for (const url of [join(folder, "to"), ...(database === undefined ? [] : [database])]) {
      let tablet = await make(url);
      const header = { tabletName, tabletId: tablet.id, incarnation: "i", parentIncarnations: [], createdAtMs: 1 };
      for (const [what, document] of Object.entries(unusable)) {
        await tablet.close();
        writeFileSync(file, [...backupPieces({ ...header, generation: 1 }, [document])].join(""));
        const error = await rejection(restore(url, true), InvalidStateError);
        expect(error.message, what).to.contain("the backup has data that this version cannot use");
        tablet = await open(url);
        expect(await contents(tablet), what).to.deep.equal({ hosts: HOSTS, changed: 0, counter: 7 });
      }
      await tablet.close();
    }
  });

  it("leaves a database that refuses to serve when it is interrupted, and no folder at all", async function () {
    leaveToVerify(this);
    const tablet = await make(join(folder, "from"));
    await backUp(tablet);
    await tablet.close();
    const lines = readFileSync(file, "utf8").split("\n");
    for (const url of [join(folder, "to"), ...(database === undefined ? [] : [database])]) {
      const storage = openStorage(url, tabletName, { mongo: LEASE });
      const commit = storage.commit.bind(storage);
      let commits = 0;
      storage.commit = async (changes) => {
        await commit(changes);
        if (++commits === 1) throw new Error("the power failed");
      };
      const options = { file, schema, storage, tabletName, replace: false };
      expect((await rejection(restoreBackup(options))).message).to.equal("the power failed");
      if (url === database) {
        const error = await rejection(open(url), InvalidStateError);
        expect(error.message).to.contain("a partly restored backup").and.to.contain("--replace");
      } else expect(readdirSync(url)).to.deep.equal([]);
      await restore(url, url === database);
      await using next = await open(url);
      expect(await contents(next)).to.include({ hosts: HOSTS });
    }
    expect(lines.length).to.equal(HOSTS + 4);
  });

  describe("refuses a file", () => {
    beforeEach(async () => {
      await using tablet = await make(join(folder, "from"));
      await backUp(tablet);
    });

    async function expectRefusal(reason: string, kind: new (message: string) => DomainError) {
      await rejection(restore(join(folder, "to")), kind, reason);
    }

    const edit = (change: (text: string) => string) => writeFileSync(file, change(readFileSync(file, "utf8")));

    it("that is truncated at any place", async () => {
      const sizeBytes = readFileSync(file).length;
      for (const cut of [sizeBytes - 2, sizeBytes - 200, Math.floor(sizeBytes / 2), 10]) {
        truncateSync(file, cut);
        await expectRefusal("cannot be used", InvalidArgumentError);
      }
    });

    it("that was changed, is no backup, or is of another tablet", async () => {
      const whole = readFileSync(file, "utf8");
      edit((text) => text.replace('"n":7', '"n":8'));
      await expectRefusal("its checksum does not match", InvalidArgumentError);
      writeFileSync(file, whole.replace(/.*\n/, ""));
      await expectRefusal("it is not a diskmesh backup", InvalidArgumentError);
      writeFileSync(file, "");
      await expectRefusal("its end is missing", InvalidArgumentError);
      writeFileSync(file, whole.replace('"format":1', '"format":2'));
      await expectRefusal("run the newer program", InvalidArgumentError);
      writeFileSync(file, whole.replaceAll(tabletName, "director"));
      await expectRefusal("its checksum does not match", InvalidArgumentError);
    });
  });
});

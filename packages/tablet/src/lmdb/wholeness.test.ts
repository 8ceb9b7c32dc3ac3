import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { type Database, open as openLmdb } from "lmdb";
import { randomOf } from "../contract/random.js";
import { firstReleaseDocuments, makeFirstReleaseFolder } from "../testing/first-release.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import { openLmdbStorage } from "./lmdb-storage.js";

const LEADER = { writer: "writer", address: "127.0.0.1:1" };
const OPEN = fileURLToPath(new URL("./open-and-print.js", import.meta.url));
const DEVICES = 20;
const PAGE_SIZE_BYTES = 4_096;

type Edit = (table: Database<string, Buffer>) => void;

describe("a folder that is not whole", () => {
  let folder: string;

  beforeEach(async () => {
    folder = join(temporaryFolder(), "registry");
    const storage = await load();
    await storage.commit([{ table: "hosts", key: "h1", document: { hostId: "h1" } }]);
    for (let n = 0; n < 3; n++) await storage.commit(Array.from({ length: DEVICES }, (_, i) => device(i, n)));
    await storage.close({ handOver: true });
  });

  const device = (i: number, n: number) => ({
    table: "devices",
    key: `d${i}`,
    document: { deviceId: `d${i}`, attachState: n },
  });

  async function load(onDocument?: (table: string, key: string, document: object) => void): Promise<TrackedStorage> {
    const storage = new TrackedStorage(openLmdbStorage({ folder }));
    try {
      await storage.claim(LEADER);
      await storage.load(onDocument);
      return storage;
    } catch (error) {
      await storage.close({ handOver: true });
      throw error;
    }
  }

  async function edit(name: string, change: Edit): Promise<void> {
    const root = openLmdb<string, Buffer>({ path: folder, noSubdir: false, encoding: "string" });
    const table = root.openDB<string, Buffer>({ name, encoding: "string", keyEncoding: "binary" });
    await root.transaction(() => change(table));
    await root.close();
  }

  async function expectRefusal(...reasons: readonly string[]): Promise<void> {
    const error = await rejection(load(), InvalidStateError);
    for (const reason of [folder, "restore", ...reasons]) expect(error.message).to.contain(reason);
  }

  it("is whole with documents that are longer than a page, not ASCII, of a later version, or the last of many", async () => {
    const text = "Zürich €".repeat(1_000);
    const added = [
      { table: "hosts", key: "long", document: { text: "x".repeat(20_000) } },
      { table: "hosts", key: "höst", document: { text } },
      { table: "hosts", key: "later", document: { text: "x" }, version: 7 },
      ...Array.from({ length: 5_000 }, (_, i) => ({ table: "volumes", key: `v${i}`, document: { i, text: "€" } })),
    ];
    const storage = await load();
    await storage.inner.commit(added.map((each) => ({ version: 1, ...each, previous: null })));
    await storage.close({ handOver: true });
    const loaded = new Map<string, object>();
    const again = openLmdbStorage({ folder });
    await again.claim(LEADER);
    await again.load((table, key, stored) => loaded.set(`${table}/${key}`, stored));
    await again.close({ handOver: true });
    expect(loaded.size).to.equal(1 + DEVICES + added.length);
    for (const { table, key, document, version } of added.map((each) => ({ version: 1, ...each })))
      expect(loaded.get(`${table}/${key}`)).to.deep.include({ document, version });
  });

  const cases: Readonly<Record<string, { table?: string; edit: Edit; reasons: string[] }>> = {
    "a changed byte": {
      edit: (table) => {
        const value = table.get(Buffer.from("d3")) as string;
        table.putSync(Buffer.from("d3"), value.replace('"attachState":2', '"attachState":-1'));
      },
      reasons: ["table devices", '"d3"', "changed by something else"],
    },
    "a document without its checksum": {
      edit: (table) => table.putSync(Buffer.from("d3"), '{"deviceId":"d3","attachState":-1}'),
      reasons: ["table devices has 20 documents as it should, but some are not those"],
    },
    "a document under another's key": {
      edit: (table) => table.putSync(Buffer.from("d4"), table.get(Buffer.from("d3")) as string),
      reasons: ["table devices", '"d4"', "changed by something else"],
    },
    "a deleted document": {
      edit: (table) => table.removeSync(Buffer.from("d3")),
      reasons: ["table devices has 19 of 20 documents: 1 missing"],
    },
    "an empty table": {
      edit: (table) => table.clearSync(),
      reasons: ["table devices has 0 of 20 documents: 20 missing"],
    },
    "a document too many": {
      edit: (table) => table.putSync(Buffer.from("d99"), '{"deviceId":"d99"}'),
      reasons: ["table devices has 21 documents instead of 20: 1 too many"],
    },
    "a forgotten table": {
      table: "_meta",
      edit: (table) => table.removeSync(Buffer.from("tables")),
      reasons: ["table devices has 0 of 20", "table hosts has 0 of 1"],
    },
    "missing sums": {
      table: "_meta",
      edit: (table) => table.removeSync(Buffer.from("sums")),
      reasons: ["its sums are missing"],
    },
    "a changed claim": {
      table: "_meta",
      edit: (table) => {
        const claim = table.get(Buffer.from("claim")) as string;
        table.putSync(Buffer.from("claim"), claim.replace('"generation":1', '"generation":9'));
      },
      reasons: ["_meta", '"claim"'],
    },
  };
  for (const [what, { table = "devices", edit: change, reasons }] of Object.entries(cases)) {
    it(`is refused with ${what}`, async () => {
      await edit(table, change);
      await expectRefusal(...reasons);
    });
  }

  it("is refused when an earlier value is back in its place", async () => {
    let earlier = "";
    await edit("devices", (table) => {
      earlier = table.get(Buffer.from("d3")) as string;
    });
    const storage = await load();
    await storage.commit([device(3, 7)]);
    await storage.close({ handOver: true });
    await edit("devices", (table) => table.putSync(Buffer.from("d3"), earlier));
    await expectRefusal("table devices has 20 documents as it should, but some are not those");
  });

  it("is refused when its data file is gone, or empty", async () => {
    truncateSync(join(folder, "data.mdb"));
    await expectRefusal("data.mdb is empty");
    rmSync(join(folder, "data.mdb"));
    await expectRefusal("data.mdb is missing", "holds-data");
    // As the first release left it.
    rmSync(join(folder, "holds-data"));
    truncateSync(join(folder, "lock.mdb"), 8_272);
    await expectRefusal("data.mdb is missing", "lock.mdb");
  });

  it("is found by its leader when it next renews", async () => {
    const storage = await load();
    await storage.renew();
    const content = readFileSync(join(folder, "data.mdb"));
    rmSync(join(folder, "data.mdb"));
    const deleted = await rejection(storage.renew());
    writeFileSync(join(folder, "data.mdb"), content);
    const replaced = await rejection(storage.renew());
    await storage.close({ handOver: true });
    for (const error of [deleted, replaced]) expect(error).to.be.instanceOf(InvalidStateError);
    expect(deleted.message).to.contain("was deleted while this process used it");
    expect(replaced.message).to.contain("was replaced by another file");
  });

  /** Of a meta page: where a field is, and how long. */
  const metaFields: Readonly<Record<string, readonly [offset: number, sizeBytes: number]>> = {
    "its magic number": [24, 4],
    "its version": [28, 4],
    "its map size": [40, 8],
    "its page size": [48, 4],
    "flags and depth of the free pages": [52, 4],
    "the root of the free pages": [88, 8],
    "flags and depth of the databases": [100, 4],
    "the root of the databases": [136, 8],
    "its last page": [144, 8],
    "its transaction": [152, 8],
  };
  for (const [field, [offset, sizeBytes]] of Object.entries(metaFields)) {
    it(`ends no process without a word when both meta pages are damaged in ${field}`, async function () {
      leaveToVerify(this);
      for (const byte of [0xff, 0x11, 0]) {
        const bytes = Buffer.alloc(sizeBytes, byte);
        await expectWord(bytes, [offset, PAGE_SIZE_BYTES + offset]);
      }
    });
  }

  it("ends no process without a word, whatever the heads of its other pages hold", async function () {
    leaveToVerify(this);
    const random = randomOf(4_711);
    const pages = readFileSync(join(folder, "data.mdb")).length / PAGE_SIZE_BYTES;
    const outcomes: string[] = [];
    for (let round = 0; round < 12; round++) {
      const bytes = Buffer.from(Array.from({ length: 4 }, () => random() * 256));
      outcomes.push(
        await expectWord(bytes, [Math.floor(random() * pages) * PAGE_SIZE_BYTES + Math.floor(random() * 60)]),
      );
    }
    expect(outcomes).to.include("refused");
  });

  /** In a process of its own, as a signal would end this one. Bytes that nothing depends on may change. */
  async function expectWord(bytes: Buffer, positions: readonly number[]): Promise<"served" | "refused"> {
    const path = join(folder, "data.mdb");
    const sound = readFileSync(path);
    const damaged = Buffer.from(sound);
    for (const position of positions) bytes.copy(damaged, position);
    writeFileSync(path, damaged);
    const child = spawn(process.execPath, [OPEN, folder]);
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
    const [code, signal] = await once(child, "close");
    writeFileSync(path, sound);
    const what = `${bytes.toString("hex")} at ${positions}: ${signal ?? code} ${output}`;
    if (code === 0) {
      expect(output, what).to.equal(`serves ${DEVICES + 1}\n`);
      return "served";
    }
    expect(signal, what).to.equal(null);
    expect(output, what).to.match(/InvalidStateError.*(damaged|not whole|cannot be opened|its sums)/s);
    return "refused";
  }

  it("is told from one of a newer format", async () => {
    await edit("_meta", (table) => table.putSync(Buffer.from("format"), "diskmesh tablet 3"));
    await edit("devices", (table) => table.putSync(Buffer.from("d3"), "as a newer one writes it"));
    const error = await rejection(load(), InvalidStateError);
    expect(error.message).to.contain("written by a newer diskmesh").and.to.contain("format 3");
  });

  it("is told from one of the first release, which is upgraded, and whole from then on", async () => {
    for (const name of ["registry", "director"] as const) {
      folder = join(temporaryFolder(), name);
      makeFirstReleaseFolder(name, folder);
      const loaded: unknown[] = [];
      const storage = await load((table, key, document) => loaded.push({ table, key, document }));
      expect(loaded).to.have.deep.members(firstReleaseDocuments(name));
      await storage.commit([{ table: "counters", key: "new", document: { name: "new" } }]);
      await storage.close({ handOver: true });
      const claim = await (await load()).inner.close({ handOver: true });
      expect(claim).to.equal(undefined);
      await edit("counters", (table) => table.removeSync(Buffer.from("new")));
      await expectRefusal("table counters has 2 of 3 documents: 1 missing");
      await edit("_meta", (table) => expect(table.get(Buffer.from("format"))).to.equal("diskmesh tablet 2"));
    }
  });
});

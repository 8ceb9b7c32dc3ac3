import { cpSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { eventLogContract } from "../../contract/event-log-contract.js";
import { randomOf } from "../../contract/random.js";
import type { EventLog } from "../../storage/storage.js";
import type { OpenFile } from "../files.js";
import { ensureFolder } from "../folders.js";
import { lineOf } from "../lines.js";
import { PowerCutFiles } from "../testing/power-cut-files.js";
import { openEmbeddedEventLog } from "./embedded-event-log.js";

const FOLDER = "/state/director-events";
const FIXTURE = fileURLToPath(new URL("../../../fixtures/event-log-0.1.0/", import.meta.url));
const ALL = { from: 0, limit: 10_000 };

eventLogContract("embedded", async () => {
  const folder = temporaryFolder();
  return { open: () => openEmbeddedEventLog({ folder }), remove: async () => {} };
});

describe("the journal of an event log", () => {
  const open = (files: PowerCutFiles, fileBytes?: number) =>
    openEmbeddedEventLog({ folder: FOLDER, files, exclusive: false, ...(fileBytes && { fileBytes }) });

  it("makes everything that is written at once durable with one sync, in one open file", async () => {
    const files = new CountingFiles();
    const log = open(files);
    await log.append("events", ["first"]);
    const before = { ...files.counts };
    const streams = Array.from({ length: 20 }, (_, i) => log.append(`task-${i}`, ["a", "b"]));
    await Promise.all([...streams, log.trim("events", 1), log.addRecords([{ key: "all/1", text: "task 1" }])]);
    expect(files.counts).to.deep.equal({ ...before, syncs: before.syncs + 1 });
    await log.close();
  });

  it("reads of the files only what a caller asks for", async () => {
    const files = new CountingFiles();
    const log = open(files);
    for (let n = 0; n < 200; n++)
      await Promise.all([log.append("task-7", [`line ${n}`]), log.append("others", ["x".repeat(9_000)])]);
    files.counts.readBytes = 0;
    expect((await log.read("task-7", { from: 150, limit: 10 })).lines[0]).to.equal("line 150");
    expect(files.counts.readBytes).to.be.at.most(2 * 2 ** 16);
    for (let n = 0; n < 100; n++) await log.append("alone", ["x".repeat(2_000)]);
    files.counts.readBytes = 0;
    expect((await log.read("alone", { from: 90, limit: 1 })).lines).to.have.lengthOf(1);
    expect(files.counts.readBytes).to.be.at.most(2 * 2 ** 16);
    await log.close();
  });

  it("answers as a plain log does while files begin and go, also after reopens", async () => {
    for (let seed = 1; seed <= 8; seed++) {
      const random = randomOf(seed);
      const files = new PowerCutFiles();
      const model = new PlainLog();
      let log = open(files, 3_000);
      for (let step = 0; step < 400; step++) {
        await Promise.all(Array.from({ length: 1 + Math.floor(random() * 4) }, () => randomCall(random, log, model)));
        if (random() < 0.03) {
          await log.close();
          log = open(files, 3_000);
        }
        if (random() < 0.1) await model.compare(log, `seed ${seed}, step ${step}`);
      }
      await model.compare(log, `seed ${seed}`);
      await log.close();
      expect(sizeOf(files), `seed ${seed}`).to.be.at.most(3 * model.sizeBytes() + 30_000);
    }
  });

  it("reads lines whose file is removed meanwhile", async () => {
    const files = new CountingFiles();
    const log = open(files, 2_000);
    const lines = Array.from({ length: 40 }, (_, n) => `${n} ${"x".repeat(200)}`);
    for (const line of lines) await log.append("task-1", [line]);
    let openNow = (): void => {};
    files.beforeRead = new Promise((resolve) => {
      openNow = resolve;
    });
    const read = log.read("task-1", ALL);
    await log.drop("task-1");
    const written = log.append("task-2", ["what begins a file"]);
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
    openNow();
    expect((await read).lines).to.deep.equal(lines);
    await written;
    expect([...files.contents().keys()].filter((name) => name.startsWith("events."))).to.have.lengthOf(1);
    await log.close();
  });

  it("keeps the first of two records with one key", async () => {
    const files = new PowerCutFiles();
    for (let start = 0; start < 2; start++) {
      const log = open(files);
      await log.addRecords(["first", "second"].map((text) => ({ key: "all/1", text })));
      expect(await log.readRecords({ prefix: "all/", limit: 9 })).to.deep.equal([{ key: "all/1", text: "first" }]);
      await log.close();
    }
  });

  it("accepts nothing more after a sync failed, and keeps what it had acknowledged", async () => {
    const files = new PowerCutFiles();
    const log = open(files);
    await log.append("events", ["first"]);
    files.failNextSync = true;
    expect((await rejection(log.append("events", ["second"]), UnavailableError)).outcome).to.equal("unknown");
    await rejection(log.append("events", ["third"]), UnavailableError);
    await log.close();
    const next = open(files);
    expect((await next.read("events", ALL)).lines).to.deep.equal(["first"]);
    await next.close();
  });

  it("loses nothing when a sync of the folder fails while a file begins", async () => {
    for (let appends = 3; appends < 12; appends++) {
      const files = new PowerCutFiles();
      let log = open(files, 1_000);
      const acknowledged: string[] = [];
      for (let n = 0; n < appends; n++) {
        const line = `${n} ${"x".repeat(300)}`;
        if (n === 3) files.folderSyncsToFail = 1;
        await log.append("events", [line]).then(
          () => acknowledged.push(line),
          () => {},
        );
      }
      await log.close();
      log = open(files.afterKill(), 1_000);
      const { lines } = await log.read("events", ALL);
      expect(lines.slice(0, acknowledged.length), `${appends} appends`).to.deep.equal(acknowledged);
      await log.close();
    }
  });

  it("keeps what is written after a kill at any moment, also if the power fails then", async () => {
    for (let calls = 0; calls < 90; calls++) {
      let files = new PowerCutFiles();
      let log = open(files, 500);
      const line = (n: number) => `${n} ${"x".repeat(300)}`;
      await log.append("events", [line(0)]);
      files.callsLeft = calls;
      for (let n = 1; n < 6; n++) await log.append("events", [line(n)]).catch(() => {});
      files = files.afterKill();
      log = open(files, 500);
      const next = await log.append("events", [line(99)]);
      log = open(files.afterCut(() => 0));
      const { lines } = await log.read("events", ALL);
      expect([lines.length, lines.at(-1)], `${calls} calls`).to.deep.equal([next, line(99)]);
    }
  });

  it("fails only the append that finds no room, not what is written with it", async () => {
    const files = new PowerCutFiles();
    const log = open(files);
    await log.append("events", ["first"]);
    files.capacityBytes = sizeOf(files) + 2_000;
    const [large, small] = await Promise.allSettled([
      log.append("task-1", ["x".repeat(5_000)]),
      log.append("events", ["second"]),
    ]);
    expect([large.status, small.status]).to.deep.equal(["rejected", "fulfilled"]);
    expect((await log.read("events", ALL)).lines).to.deep.equal(["first", "second"]);
    expect((await log.read("task-1", ALL)).lines).to.deep.equal([]);
    await log.close();
  });

  describe("of several files", () => {
    async function makeFiles(): Promise<{ files: PowerCutFiles; names: string[]; contents: Map<string, Buffer> }> {
      const files = new PowerCutFiles();
      const log = open(files, 1_000);
      for (let n = 0; n < 12; n++) await log.append("events", [`${n} ${"x".repeat(300)}`]);
      await log.close();
      const contents = files.contents();
      const names = [...contents.keys()].filter((name) => name.startsWith("events.")).sort();
      expect(names).to.have.length.greaterThan(2);
      return { files, names, contents };
    }

    const refusal = async (files: PowerCutFiles) =>
      (await rejection(open(files).read("events", ALL), InvalidStateError)).message;

    it("is refused by name when one of them is missing", async () => {
      const { files, names } = await makeFiles();
      for (const name of names.slice(0, -1)) {
        const damaged = files.changed("", Buffer.alloc(0));
        await damaged.remove(join(FOLDER, name));
        expect(await refusal(damaged)).to.contain(`${join(FOLDER, name)} is missing`);
      }
    });

    it("is refused by name when lines or files are exchanged", async () => {
      const { files, names, contents } = await makeFiles();
      const [first = "", second = "", third = ""] = names;
      const ofFirst = contents.get(first) as Buffer;
      const other = files.changed(join(FOLDER, second), ofFirst);
      expect(await refusal(other)).to.contain(`${join(FOLDER, second)} is damaged at byte 0`);
      const [head = "", one = "", two = "", ...rest] = ofFirst.toString().split("\n");
      const swapped = files.changed(join(FOLDER, first), Buffer.from([head, two, one, ...rest].join("\n")));
      expect(await refusal(swapped)).to.contain(`${join(FOLDER, first)} is damaged at byte ${head.length + 1}`);
      const ofSecond = (contents.get(second) as Buffer).toString().split("\n");
      const shorter = files.changed(join(FOLDER, second), Buffer.from(`${ofSecond.slice(0, -2).join("\n")}\n`));
      expect(await refusal(shorter)).to.contain(`${join(FOLDER, second)} is damaged`);
      expect(third).not.to.equal("");
    });

    it("is refused by name and byte when one bit of one of them is flipped", async () => {
      const { files, names, contents } = await makeFiles();
      const random = randomOf(4_713);
      for (let flip = 0; flip < 100; flip++) {
        const name = names[flip % names.length] as string;
        const bytes = Buffer.from(contents.get(name) as Buffer);
        const at = Math.floor(random() * (bytes.length - 1));
        bytes[at] = (bytes[at] as number) ^ (1 << Math.floor(random() * 8));
        const damaged = files.changed(join(FOLDER, name), bytes);
        expect(await refusal(damaged)).to.contain(`${join(FOLDER, name)} is damaged at byte`);
      }
    });

    it("is refused when a newer version wrote the last one", async () => {
      const { files, names } = await makeFiles();
      const head = { kind: "events", number: names.length, format: "diskmesh event log 5", oldest: 1, previous: 0 };
      const newer = files.changed(join(FOLDER, names.at(-1) as string), lineOf(head));
      expect(await refusal(newer)).to.contain("its format is 5, but this program supports at most 4; run the newer");
    });

    it("has a torn line only at the end of the last one", async () => {
      const { files, names, contents } = await makeFiles();
      for (const name of names) {
        const bytes = contents.get(name) as Buffer;
        const torn = files.changed(join(FOLDER, name), bytes.subarray(0, -20));
        if (name !== names.at(-1)) expect(await refusal(torn)).to.contain(`${join(FOLDER, name)} is damaged`);
        else {
          const log = open(torn);
          expect((await log.bounds("events")).next).to.equal(11);
          await log.close();
        }
      }
    });
  });

  describe("of the first release, with a file of each stream", () => {
    async function checkFixture(log: EventLog): Promise<void> {
      const read = async (stream: string) => (await log.read(stream, ALL)).lines;
      expect(await log.bounds("events")).to.deep.equal({ first: 3, next: 13 });
      expect((await read("events")).at(0)).to.equal("part of event 1");
      expect((await read("events")).at(-1)).to.equal("after the trim");
      expect(await read("task-1")).to.deep.equal(["first", "Zürich \u{1f4be}", "two\nlines"]);
      expect(await read("task-1-cpi")).to.deep.equal(["of the CPI"]);
      expect(await read("a/b:c")).to.deep.equal(["a name with characters that file names lack"]);
      expect(await read("task-2")).to.deep.equal([]);
      const records = [1, 3].map((n) => ({ key: `all/${n}`, text: JSON.stringify({ taskId: n }) }));
      expect(await log.readRecords({ prefix: "all/", limit: 9 })).to.deep.equal(records);
    }

    it("is converted at the first start, and goes on", async () => {
      const folder = join(temporaryFolder(), "director-events");
      cpSync(FIXTURE, folder, { recursive: true });
      for (let start = 0; start < 2; start++) {
        const log = openEmbeddedEventLog({ folder });
        await checkFixture(log);
        await log.close();
        expect(readdirSync(folder).sort()).to.deep.equal(["events.0000000000000001", "holds-data", "owner.lock"]);
      }
      const log = openEmbeddedEventLog({ folder });
      expect(await log.append("events", ["of this release"])).to.equal(14);
      await log.close();
    });

    it("is converted completely also if starts are cut off", async () => {
      const random = randomOf(11);
      for (let calls = 0; calls < 60; calls++) {
        let files = await firstRelease();
        await put(files, "events.0000000000000002", Buffer.from("of a conversion that was cut off before"));
        await files.syncFolder(FOLDER);
        files.callsLeft = calls;
        await open(files)
          .bounds("events")
          .catch(() => {});
        files = calls % 2 === 0 ? files.afterKill() : files.afterCut(random);
        const log = open(files);
        await checkFixture(log);
        await log.close();
        expect([...files.contents().keys()].filter((name) => /^(stream|records)/.test(name))).to.deep.equal([]);
      }
    });

    it("takes lines that a trim left in two files from the later one", async () => {
      const files = await firstRelease();
      await put(files, "stream.task-9.000000000000000", lineOf(["a", "b", "c"]));
      await put(files, "stream.task-9.000000000000002", lineOf(["c", "d"]));
      const log = open(files);
      expect((await log.read("task-9", ALL)).lines).to.deep.equal(["a", "b", "c", "d"]);
      await log.close();
    });
  });
});

/** Counts syncs, opened files and bytes read. */
class CountingFiles extends PowerCutFiles {
  counts = { syncs: 0, opens: 0, readBytes: 0 };
  /** Delays the opening of files for reading. */
  beforeRead: Promise<void> | undefined;

  override async open(...args: Parameters<PowerCutFiles["open"]>): Promise<OpenFile> {
    this.counts.opens++;
    if (args[1] === "r") await this.beforeRead;
    const file = await super.open(...args);
    return {
      ...file,
      read: (buffer, offset, length, position) => {
        this.counts.readBytes += length;
        return file.read(buffer, offset, length, position);
      },
      datasync: () => {
        this.counts.syncs++;
        return file.datasync();
      },
    };
  }

  override syncFolder(folder: string): Promise<void> {
    this.counts.syncs++;
    return super.syncFolder(folder);
  }
}

/** A model of an event log. A stream has the index of its first line, and its lines. */
class PlainLog {
  readonly streams = new Map<string, { first: number; lines: string[] }>();
  readonly records = new Map<string, string>();

  sizeBytes(): number {
    const texts = [...this.records.values(), ...Array.from(this.streams.values(), ({ lines }) => lines).flat()];
    return texts.reduce((sum, text) => sum + text.length + 60, 0);
  }

  async compare(log: EventLog, where: string): Promise<void> {
    for (const stream of STREAMS) {
      const { first, lines } = this.streams.get(stream) ?? { first: 0, lines: [] };
      const next = first + lines.length;
      expect(await log.bounds(stream), where).to.deep.equal({ first, next });
      expect(await log.read(stream, { from: first, limit: 10_000 }), where).to.deep.equal({ lines, next });
      const [from, limit] = [first + (lines.length >> 1), 1 + (lines.length >> 2)];
      const part = lines.slice(from - first, from - first + limit);
      expect(await log.read(stream, { from, limit }), where).to.deep.equal({ lines: part, next: from + part.length });
    }
    const expected = Array.from(this.records, ([key, text]) => ({ key: `all/${key}`, text }));
    expect(await log.readRecords({ prefix: "all/", limit: 10_000 }), where).to.deep.equal(
      expected.sort((a, b) => (a.key < b.key ? -1 : 1)),
    );
  }
}

const STREAMS = ["events", "task-1", "task-2", "task-3"];

/** Makes a random call, and the same change in the model. */
async function randomCall(random: () => number, log: EventLog, { streams, records }: PlainLog): Promise<void> {
  const below = (count: number): number => Math.floor(random() * count);
  const stream = STREAMS[below(STREAMS.length)] as string;
  const kept = streams.get(stream) ?? { first: 0, lines: [] };
  const key = `${below(30)}`;
  const choice = random();
  if (choice < 0.6) {
    const lines = Array.from(
      { length: below(5) },
      (_, i) => `${below(1e6)} ${"x".repeat(below(i === 0 ? 3_000 : 90))}`,
    );
    kept.lines.push(...lines);
    if (kept.lines.length > 0) streams.set(stream, kept);
    const next = kept.first + kept.lines.length;
    expect(await log.append(stream, lines)).to.equal(next);
  } else if (choice < 0.7) {
    const to = Math.min(kept.first + below(kept.lines.length + 3), kept.first + kept.lines.length - 1);
    kept.lines.splice(0, Math.max(0, to - kept.first));
    kept.first = Math.max(kept.first, to);
    await log.trim(stream, to);
  } else if (choice < 0.74) {
    streams.delete(stream);
    await log.drop(stream);
  } else if (choice < 0.9) {
    const text = "y".repeat(below(400));
    if (!records.has(key)) records.set(key, text);
    await log.addRecords([{ key: `all/${key}`, text }]);
  } else {
    records.delete(key);
    await log.removeRecords([`all/${key}`]);
  }
}

/** Returns a folder as the first release left it. */
async function firstRelease(): Promise<PowerCutFiles> {
  const files = new PowerCutFiles();
  await ensureFolder(files, FOLDER);
  for (const name of readdirSync(FIXTURE)) await put(files, name, readFileSync(join(FIXTURE, name)));
  await files.syncFolder(FOLDER);
  return files;
}

async function put(files: PowerCutFiles, name: string, content: Buffer): Promise<void> {
  const file = await files.open(join(FOLDER, name), "w");
  await file.appendFile(content);
  await file.datasync();
}

function sizeOf(files: PowerCutFiles): number {
  return Array.from(files.contents().values()).reduce((sum, { length }) => sum + length, 0);
}

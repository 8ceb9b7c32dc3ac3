import { join } from "node:path";
import { InvalidStateError } from "@diskmesh/domain";
import { expect } from "chai";
import { randomOf } from "../contract/random.js";
import { TrackedStorage } from "../testing/tracked-storage.js";
import { openEmbeddedStorage } from "./embedded-storage.js";
import { openEmbeddedEventLog } from "./events/embedded-event-log.js";
import { PowerCutFiles } from "./testing/power-cut-files.js";

const FOLDER = "/state/registry";
const LEADER = { writer: "writer", address: "" };
const FLIPS = 400;
const CUTS = 100;
const SECTOR_BYTES = 512;

/** Documents by key of the only table. */
type Contents = Record<string, { readonly n: number }>;

describe("damage to an embedded store", () => {
  /** Makes a store with a snapshot and later journals. Each of these files contains changed and deleted documents. */
  async function makeStore({ close = true } = {}): Promise<PowerCutFiles> {
    const files = new PowerCutFiles();
    for (let life = 0; life < 3; life++) {
      const storage = open(files, life === 0 ? 6_000 : 2 ** 30);
      await storage.claim(LEADER);
      await storage.load();
      for (let n = 0; n < 40; n++)
        await storage.commit([
          put(`h${n % 7}`, { n, text: "x".repeat(n * 40) }),
          put("counter", { n: 40 * life + n }),
          { table: "hosts", key: `h${(n + 3) % 7}`, document: null },
        ]);
      if (close || life < 2) await storage.close({ handOver: true });
    }
    expect(names(files)).to.match(/snapshot.*/);
    return files;
  }

  const put = (key: string, document: object) => ({ table: "hosts", key, document });
  const open = (files: PowerCutFiles, journalsBytesMin: number) =>
    new TrackedStorage(openEmbeddedStorage({ folder: FOLDER, files, exclusive: false, journalsBytesMin }));
  const names = (files: PowerCutFiles) => [...files.contents().keys()].join();

  /** Returns the documents that a leader finds before and after a commit, or the message of its refusal. */
  async function outcome(files: PowerCutFiles): Promise<Contents | string> {
    try {
      const found = await contents(files, put("new", { n: -1 }));
      const { new: added, ...again } = await contents(files);
      expect(added).to.deep.equal({ n: -1 });
      expect(again).to.deep.equal(found);
      return found;
    } catch (error) {
      if (error instanceof InvalidStateError) return error.message;
      throw error;
    }
  }

  async function contents(files: PowerCutFiles, change?: ReturnType<typeof put>): Promise<Contents> {
    const found: Contents = {};
    const storage = open(files, 2 ** 30);
    try {
      await storage.claim(LEADER);
      await storage.load((_, key, document) => (found[key] = document as { n: number }));
      if (change !== undefined) await storage.commit([change]);
      return found;
    } finally {
      await storage.close({ handOver: true });
    }
  }

  for (const close of [true, false])
    it(`refuses one flipped bit with file and byte, unless it has no effect, ${close ? "after a clean stop" : "after a crash"}`, async () => {
      const sound = await makeStore({ close });
      const expected = await contents(sound.changed("", Buffer.alloc(0)));
      const random = randomOf(4_711);
      const files = [...sound.contents()].filter(([name]) => name !== "holds-data");
      const last = lastJournal(sound);
      for (let flip = 0; flip < FLIPS; flip++) {
        const [name, bytes] = files[Math.floor(random() * files.length)] as [string, Buffer];
        const at = Math.floor(random() * bytes.length);
        const damaged = Buffer.from(bytes);
        damaged[at] = (damaged[at] as number) ^ (1 << Math.floor(random() * 8));
        const found = await outcome(sound.changed(join(FOLDER, name), damaged));
        const where = `byte ${at} of ${name}`;
        if (typeof found === "string")
          expect(found, where).to.match(/\/state\/registry\/\S+ is damaged(:| at byte \d+)/);
        else if (!close && name === last.name && at >= last.lineAt) expect(found.counter?.n, where).to.equal(118);
        else expect(found, where).to.deep.equal(expected);
      }
    });

  it("refuses a file truncated after a clean stop, unless it has no effect", async () => {
    const sound = await makeStore();
    const expected = await contents(sound.changed("", Buffer.alloc(0)));
    const random = randomOf(4_712);
    const files = [...sound.contents()];
    for (let cut = 0; cut < CUTS; cut++) {
      const [name, bytes] = files[cut % files.length] as [string, Buffer];
      const at = cut % 5 === 0 ? 0 : Math.floor(random() * bytes.length);
      const found = await outcome(sound.changed(join(FOLDER, name), bytes.subarray(0, at)));
      if (typeof found !== "string") expect(found, `${name} of ${at} bytes`).to.deep.equal(expected);
    }
  });

  for (const [what, tail] of [
    ["nothing", 0],
    ["zeros", 4_096],
  ] as const)
    it(`loads the last whole commit when a crash tore the last line, with ${what} behind it`, async () => {
      const sound = await makeStore({ close: false });
      const { name, bytes, lineAt } = lastJournal(sound);
      for (let at = lineAt; at < bytes.length; at += 5) {
        const torn = Buffer.concat([bytes.subarray(0, at), Buffer.alloc(tail)]);
        const found = (await outcome(sound.changed(join(FOLDER, name), torn))) as Contents;
        expect(found.counter?.n, `${at} bytes`).to.equal(118);
      }
    });

  it("loads the last whole commit when a sector of the last line was never written", async () => {
    const sound = await makeStore({ close: false });
    const { name, bytes, lineAt } = lastJournal(sound);
    const nextSector = (at: number) => Math.min(at - (at % SECTOR_BYTES) + SECTOR_BYTES, bytes.length);
    for (let at = lineAt; at < bytes.length; at = nextSector(at)) {
      const torn = Buffer.from(bytes).fill(0, at, nextSector(at));
      const found = (await outcome(sound.changed(join(FOLDER, name), torn))) as Contents;
      expect(found.counter?.n, `zeros at ${at}`).to.equal(118);
    }
  });

  it("returns events unchanged or refuses with file and byte when one bit of an event log is flipped", async () => {
    const sound = new PowerCutFiles();
    const lines = Array.from({ length: 60 }, (_, n) => `line ${n} ${"y".repeat(n)}`);
    await withEvents(sound, async (log) => {
      for (const line of lines) await log.append("events", [line]);
      await log.addRecords(lines.map((text, n) => ({ key: `done/${100 + n}`, text })));
    });
    const random = randomOf(4_713);
    const files = [...sound.contents()].filter(([name]) => name !== "holds-data");
    let refused = 0;
    for (let flip = 0; flip < CUTS; flip++) {
      const [name, bytes] = files[flip % files.length] as [string, Buffer];
      const at = Math.floor(random() * (bytes.length - 1));
      const damaged = Buffer.from(bytes);
      damaged[at] = (damaged[at] as number) ^ (1 << Math.floor(random() * 8));
      try {
        await withEvents(sound.changed(join(FOLDER, name), damaged), async (log) => {
          expect(await log.read("events", { from: 0, limit: 100 })).to.deep.equal({ lines, next: 60 });
          expect((await log.readRecords({ prefix: "done/", limit: 100 })).map(({ text }) => text)).to.deep.equal(lines);
        });
      } catch (error) {
        if (!(error instanceof InvalidStateError)) throw error;
        expect(error.message).to.contain(`${join(FOLDER, name)} is damaged at byte`);
        refused++;
      }
    }
    expect(refused).to.equal(CUTS);
  });

  async function withEvents(
    files: PowerCutFiles,
    work: (log: ReturnType<typeof openEmbeddedEventLog>) => Promise<void>,
  ) {
    const log = openEmbeddedEventLog({ folder: FOLDER, files, exclusive: false, fileBytes: 2_000 });
    await work(log).finally(() => log.close());
  }
});

/** Returns the journal of the last commit, and the byte at which its line begins. */
function lastJournal(files: PowerCutFiles): { name: string; bytes: Buffer; lineAt: number } {
  const all = [...files.contents()].sort(([a], [b]) => (a < b ? -1 : 1));
  const [name, bytes] = all.filter(([each]) => each.startsWith("journal.")).at(-1) as [string, Buffer];
  return { name, bytes, lineAt: bytes.lastIndexOf(10, bytes.length - 2) + 1 };
}

import { InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { LineFiles, type LinePlace, type ReadOptions } from "./line-file.js";
import { lineOf } from "./lines.js";
import { PowerCutFiles } from "./testing/power-cut-files.js";

const PATH = "/state/journal.5";
const ID = { kind: "journal", number: 5 };
const VALUES = Array.from({ length: 6 }, (_, n) => ({ n, text: `some words ${"@ ".repeat(n * 60)}` }));
const SECTOR_BYTES = 512;
const nextSector = (at: number): number => (Math.floor(at / SECTOR_BYTES) + 1) * SECTOR_BYTES;

describe("A file of chained lines", () => {
  let files: PowerCutFiles;
  let bytes: Buffer;
  let places: LinePlace[];

  beforeEach(async () => {
    files = new PowerCutFiles();
    await files.makeFolder("/state");
    const file = await new LineFiles(files, "tablet", "the cure").create(PATH, "ax");
    places = [];
    for (const value of [ID, ...VALUES]) places.push(...(await file.appendChained([value])));
    bytes = files.contents().get("journal.5") as Buffer;
  });

  /** Returns the number of values behind the first line. Rejects unless they are the first of VALUES. */
  async function read(content: Buffer, options: ReadOptions = {}): Promise<number> {
    const found: unknown[] = [];
    const lines = new LineFiles(files.changed(PATH, content), "tablet", "the cure");
    await lines.read(PATH, (json) => found.push(JSON.parse(json.toString())), { id: ID, ...options });
    expect(found).to.deep.equal([ID, ...VALUES].slice(0, found.length));
    return found.length - 1;
  }
  const lines = (): Buffer[] => places.map(({ at, sizeBytes }) => bytes.subarray(at, at + sizeBytes + 1));
  const refused = (content: Buffer, options?: ReadOptions) =>
    rejection(read(content, options), InvalidStateError, `${PATH} is damaged at byte`);

  it("is read as it was written, and continued where it ended", async () => {
    expect(await read(bytes)).to.equal(VALUES.length);
    const again = new LineFiles(files, "tablet", "the cure");
    const file = await again.reopen(PATH, await again.read(PATH, () => {}, { id: ID }));
    await file.appendChained(VALUES.slice(0, 1));
    let count = 0;
    const { end, sum } = await again.read(PATH, () => count++, { id: ID });
    expect([count, end, sum]).to.deep.equal([VALUES.length + 2, file.sizeBytes, file.sum]);
  });

  it("keeps its checksums in step when an append fails for lack of space", async () => {
    const again = new LineFiles(files, "tablet", "the cure");
    const file = await again.reopen(PATH, await again.read(PATH, () => {}, { id: ID }));
    files.capacityBytes = bytes.length + 100;
    await rejection(file.appendChained(VALUES));
    files.capacityBytes = Number.POSITIVE_INFINITY;
    await file.appendChained([{ n: 6 }]);
    let last: unknown;
    await again.read(PATH, (json) => (last = JSON.parse(json.toString())), { id: ID });
    expect(last).to.deep.equal({ n: 6 });
  });

  it("is refused when lines were exchanged, repeated, removed or replaced by another of the file", async () => {
    for (let a = 0; a < places.length; a++)
      for (let b = 0; b < places.length; b++) {
        const [exchanged, replaced, repeated] = [lines(), lines(), lines()];
        [exchanged[a], exchanged[b]] = [exchanged[b] as Buffer, exchanged[a] as Buffer];
        replaced[a] = replaced[b] as Buffer;
        repeated.splice(a, 0, repeated[b] as Buffer);
        if (a !== b) for (const changed of [exchanged, replaced]) await refused(Buffer.concat(changed));
        await refused(Buffer.concat(repeated));
      }
    for (let a = 0; a < places.length - 1; a++) await refused(Buffer.concat(lines().toSpliced(a, 1)));
  });

  it("is refused under the name of another number or kind", async () => {
    for (const id of [
      { kind: "journal", number: 6 },
      { kind: "snapshot", number: 5 },
    ])
      await rejection(read(bytes, { id }), InvalidStateError, "its first line is that of journal 5");
  });

  it("is refused up to a known place when its lines are others, or fewer", async () => {
    const { at: end, seed: sum } = places[4] as LinePlace;
    expect(await read(bytes, { upTo: { end, sum } })).to.equal(3);
    await refused(bytes, { upTo: { end, sum: sum ^ 1 } });
    await refused(bytes.subarray(0, end - 1), { upTo: { end, sum } });
    await refused(bytes, { upTo: { end: end + 1, sum } });
  });

  it("is refused with any one flipped bit, also in its last line", async () => {
    for (let bit = 0; bit < 8 * bytes.length; bit++) {
      const flipped = Buffer.from(bytes);
      flipped[bit >> 3] = (flipped[bit >> 3] as number) ^ (1 << (bit & 7));
      await refused(flipped);
    }
  });

  it("may end in a line that a crash tore: cut off, or with unwritten sectors", async () => {
    const { at } = places.at(-1) as LinePlace;
    const sectors = [at];
    for (let sector = Math.ceil((at + 1) / SECTOR_BYTES); sector * SECTOR_BYTES < bytes.length; sector++)
      sectors.push(sector * SECTOR_BYTES);
    expect(sectors.length).to.be.above(1);
    for (const [index, from] of sectors.entries()) {
      const unwritten = Buffer.from(bytes).fill(0, from, sectors[index + 1] ?? bytes.length);
      expect(await read(unwritten), `sector at ${from}`).to.equal(VALUES.length - 1);
      await refused(unwritten, { isComplete: true });
      await refused(unwritten, { upTo: { end: bytes.length } });
    }
    for (let end = at; end < bytes.length; end++) {
      expect(await read(bytes.subarray(0, end))).to.equal(VALUES.length - 1);
      if (end > at) await refused(bytes.subarray(0, end), { isComplete: true });
    }
  });

  it("is refused with NUL bytes that are no unwritten sector, and with an unwritten sector before its last line", async () => {
    const { at } = places.at(-1) as LinePlace;
    for (let from = at + 1; from < bytes.length - 1; from++)
      if (from % SECTOR_BYTES !== 0) await refused(Buffer.from(bytes).fill(0, from, from + 1));
    await refused(Buffer.from(bytes).fill(0, SECTOR_BYTES, 2 * SECTOR_BYTES));
  });

  it("may end in lines of one append that a crash tore, but not in lines of two", async () => {
    const [first = 0, second = 0] = [places[2]?.at, places[3]?.at];
    const append = async (...appends: (readonly unknown[])[]): Promise<Buffer> => {
      const copy = files.changed(PATH, bytes.subarray(0, first));
      const again = new LineFiles(copy, "tablet", "the cure");
      const file = await again.reopen(PATH, await again.read(PATH, () => {}, { id: ID }));
      for (const values of appends) await file.appendChained(values);
      return copy.contents().get("journal.5") as Buffer;
    };
    const together = await append(VALUES.slice(1));
    const apart = await append(VALUES.slice(1, 3), VALUES.slice(3));
    expect(together.length).to.equal(apart.length);
    expect(await read(together)).to.equal(VALUES.length);
    for (let from = first; from < together.length; from = nextSector(from)) {
      const unwritten = (whole: Buffer) => Buffer.from(whole).fill(0, from, Math.min(nextSector(from), whole.length));
      const found = await read(unwritten(together));
      expect(found, `sector at ${from}`).to.be.at.least(1).and.below(VALUES.length);
      for (let end = from; end < together.length; end += 97)
        expect(await read(unwritten(together).subarray(0, end))).to.be.at.most(found);
      if (from < second) await refused(unwritten(apart));
    }
  });

  it("of the first release has lines whose checksums are not chained", async () => {
    const old = Buffer.concat([{ format: "diskmesh tablet 3" }, ...VALUES].map((value) => lineOf(value)));
    const found: unknown[] = [];
    const { isChained, end } = await new LineFiles(files.changed(PATH, old), "tablet", "the cure").read(
      PATH,
      (json) => found.push(JSON.parse(json.toString())),
      { id: ID },
    );
    expect([found.length, isChained, end]).to.deep.equal([VALUES.length + 1, false, old.length]);
  });
});

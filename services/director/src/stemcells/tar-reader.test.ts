import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { InvalidArgumentError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import fc from "fast-check";
import { tarEntries } from "./tar-reader.js";

const GIB_BYTES = 1024 ** 3;
const HUGE_BYTES = 9 * GIB_BYTES;

interface Header {
  readonly name: string;
  readonly sizeBytes?: number;
  /** Raw bytes of the size field, for a size that is not written in octal digits. */
  readonly size?: Buffer;
  readonly type?: string;
  readonly magic?: string;
}

/** Returns a header in POSIX format. */
function header({ name, sizeBytes = 0, size, type = "0", magic = "ustar\x0000" }: Header): Buffer {
  const block = Buffer.alloc(512);
  block.write(name, 0, "latin1");
  block.write("0000644\0", 100);
  block.write(`${sizeBytes.toString(8).padStart(11, "0")}\0`, 124);
  size?.copy(block, 124);
  block.write(type, 156);
  block.write(magic, 257);
  block.write("        ", 148);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

const padded = (content: Buffer): Buffer => Buffer.concat([content, Buffer.alloc(-content.length & 511)]);
const file = (name: string, text: string): Buffer =>
  Buffer.concat([header({ name, sizeBytes: text.length }), padded(Buffer.from(text))]);

const PAX_COMMENT = `1012 comment=${"x".repeat(998)}\n`;
/** A pax header, which applies to the next entry. */
const PAX = Buffer.concat([header({ name: "x", sizeBytes: 1_012, type: "x" }), padded(Buffer.from(PAX_COMMENT))]);

/** Returns a number in GNU tar's base-256 format, for numbers beyond the range of octal digits. */
function base256(value: bigint, first = 0x80): Buffer {
  const bytes = Buffer.alloc(12);
  bytes.writeBigUInt64BE(value, 4);
  bytes[0] = first;
  return bytes;
}

async function* pieces(archive: Buffer, pieceBytes: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < archive.length; at += pieceBytes) yield archive.subarray(at, at + pieceBytes);
}

interface Found {
  readonly name: string;
  readonly isFile: boolean;
  readonly sizeBytes: number;
  readonly text: string;
}

async function read(archive: Buffer, { pieceBytes = 100, skip = false } = {}): Promise<Found[]> {
  const found: Found[] = [];
  for await (const { name, isFile, sizeBytes, content } of tarEntries(pieces(archive, pieceBytes))) {
    let text = "";
    if (!skip) for await (const piece of content) text += piece.toString();
    found.push({ name, isFile, sizeBytes, text });
  }
  return found;
}

const END = Buffer.alloc(1_024);

describe("the tar reader", () => {
  it("entries that are no files -> named so, whatever their type", async () => {
    const types = ["0", "1", "2", "3", "4", "5", "6", "7", "S", "?"];
    const archive = Buffer.concat([...types.map((type) => header({ name: type, type })), END]);
    for (const options of [{ pieceBytes: 100 }, { pieceBytes: 16_384, skip: true }]) {
      const found = await read(archive, options);
      expect(found.filter(({ isFile }) => isFile).map(({ name }) => name)).to.deep.equal(["0"]);
      expect(found.map(({ name }) => name)).to.deep.equal(types);
    }
  });

  it("a directory with a size -> no content, and the entries after it", async () => {
    const archive = Buffer.concat([header({ name: "a", type: "5", sizeBytes: 1_024 }), file("image", "x"), END]);
    expect((await read(archive)).map(({ name, text }) => [name, text])).to.deep.equal([
      ["a", ""],
      ["image", "x"],
    ]);
  });

  it("an archive without magic and without blocks of zeros at the end -> its files", async () => {
    const archive = Buffer.concat([header({ name: "a", magic: "" }), file("image", "x")]);
    expect((await read(archive)).map(({ name }) => name)).to.deep.equal(["a", "image"]);
  });

  it("a size beyond 8 GiB -> streamed, with no more taken in than is read", async () => {
    // A sparse image begins with zeros, which must not be taken for the zero blocks at the end of an archive.
    const zeros = Buffer.alloc(65_536);
    let sentBytes = 0;
    async function* endless() {
      yield header({ name: "image", size: base256(BigInt(HUGE_BYTES)) });
      for (;;) {
        sentBytes += zeros.length;
        yield zeros;
      }
    }
    for await (const entry of tarEntries(endless())) {
      expect(entry).to.include({ name: "image", sizeBytes: HUGE_BYTES, isFile: true });
      let readBytes = 0;
      for await (const piece of entry.content) {
        expect(piece.every((byte) => byte === 0)).to.equal(true);
        readBytes += piece.length;
        if (readBytes >= 1024 ** 2) break;
      }
      expect(readBytes).to.be.at.least(1024 ** 2);
      break;
    }
    expect(sentBytes).to.be.below(2 * 1024 ** 2);
  });

  it("the system's tar, pax and GNU, with a sparse file of 9 GiB -> its size", async function () {
    skipWithout(this, "tar");
    const folder = temporaryFolder();
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, "image"), "");
    truncateSync(join(folder, "image"), HUGE_BYTES);
    for (const format of ["pax", "gnu"]) {
      const command = `tar --format=${format} -cf - image | head -c 1048576 > ${format}.tar`;
      execFileSync("sh", ["-c", command], { cwd: folder, stdio: "pipe" });
      const archive = readFileSync(join(folder, `${format}.tar`));
      for await (const entry of tarEntries(pieces(archive, 16_384))) {
        expect(entry, format).to.include({ name: "image", sizeBytes: HUGE_BYTES, isFile: true });
        break;
      }
    }
  });

  const bad: [string, Buffer[], RegExp][] = [
    ["no archive", [Buffer.alloc(1_024, 7)], /not a tar archive, or is damaged/],
    ["cut in a file", [file("image", "x".repeat(2_000)).subarray(0, 1_000)], /not a tar archive, or is damaged/],
    ["cut in a header", [file("image", "").subarray(0, 300)], /not a tar archive, or is damaged/],
    ["a size of no kind", [header({ name: "image", size: base256(5n, 0x90) })], /size/],
    ["a size beyond all numbers", [header({ name: "image", size: base256(2n ** 60n) })], /size/],
    [
      "a pax header without end",
      [header({ name: "x", type: "x", sizeBytes: 4_000_000 }), Buffer.alloc(4_000_000, "1")],
      /more than 65536 bytes of headers/,
    ],
    ["pax headers without end", Array(200).fill(PAX), /more than 65536 bytes of headers/],
  ];
  for (const [what, parts, says] of bad)
    it(`${what} -> refused, whether read or skipped`, async () => {
      const archive = Buffer.concat([...parts, ...(what.startsWith("cut") ? [] : [END])]);
      for (const skip of [false, true])
        for (const pieceBytes of [512, 16_384]) {
          await rejection(read(archive, { pieceBytes, skip }), InvalidArgumentError, says);
        }
    });

  it("a damaged archive -> the same files, or refused, in pieces of any size", async () => {
    const entry = fc.record({
      name: fc.oneof(fc.constantFrom("stemcell.MF", "../image", "/etc/passwd"), fc.string({ maxLength: 100 })),
      type: fc.constantFrom("0", "\0", "1", "5", "L", "x", "g", "S"),
      content: fc.uint8Array({ maxLength: 700 }),
    });
    const change = fc.record({ at: fc.nat(4_000), byte: fc.nat(255) });
    const end = fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.nat(4_000));
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { maxLength: 4 }), fc.array(change, { maxLength: 3 }), end, async (...made) => {
        const [entries, changes, endBytes] = made;
        const parts = entries.flatMap(({ name, type, content }) => [
          header({ name: name.slice(0, 99), type, sizeBytes: content.length }),
          padded(Buffer.from(content)),
        ]);
        const archive = Buffer.concat([...parts, END]);
        for (const { at, byte } of changes) if (at < archive.length) archive[at] = byte;
        const cut = archive.subarray(0, endBytes);
        const found = await Promise.all(
          [100, 512, 16_384].map((pieceBytes) =>
            read(cut, { pieceBytes }).catch((error: unknown) => {
              expect(error).to.be.instanceOf(InvalidArgumentError);
              return "refused";
            }),
          ),
        );
        for (const one of found) expect(one).to.deep.equal(found[0]);
      }),
      { numRuns: 200, timeout: 5_000 },
    );
  });

  it("a failing input -> its own error, between entries and within an entry", async () => {
    const mine = new InvalidArgumentError("enough");
    async function* failing(archive: Buffer) {
      yield archive;
      throw mine;
    }
    for (const archive of [file("image", "x"), file("image", "x".repeat(50_000)).subarray(0, 20_000)]) {
      const error = await (async () => {
        for await (const { content } of tarEntries(failing(archive))) for await (const _ of content);
      })().catch((thrown: unknown) => thrown);
      expect(error).to.equal(mine);
    }
  });
});

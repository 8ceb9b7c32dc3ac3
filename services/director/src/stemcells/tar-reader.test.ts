import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { InvalidArgumentError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { tarEntries } from "./tar-reader.js";

const GIB_BYTES = 1024 ** 3;
const HUGE_BYTES = 9 * GIB_BYTES;

interface Header {
  readonly name: string;
  readonly sizeBytes?: number;
  /** Raw bytes of the size field, for a size that is not written in octal digits. */
  readonly size?: Buffer;
  readonly type?: string;
  readonly prefix?: string;
  readonly magic?: string;
}

/** Returns a header in POSIX format. */
function header({ name, sizeBytes = 0, size, type = "0", prefix = "", magic = "ustar\x0000" }: Header): Buffer {
  const block = Buffer.alloc(512);
  block.write(name, 0, "latin1");
  block.write("0000644\0", 100);
  block.write(`${sizeBytes.toString(8).padStart(11, "0")}\0`, 124);
  size?.copy(block, 124);
  block.write(type, 156);
  block.write(magic, 257);
  block.write(prefix, 345);
  block.write("        ", 148);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

const padded = (content: Buffer): Buffer => Buffer.concat([content, Buffer.alloc(-content.length & 511)]);
const file = (name: string, text: string): Buffer =>
  Buffer.concat([header({ name, sizeBytes: text.length }), padded(Buffer.from(text))]);

/** Returns a pax header with these records, which applies to the next entry. */
function pax(...records: [string, string][]): Buffer {
  const lines = records.map(([key, value]) => {
    const rest = ` ${key}=${value}\n`;
    let length = rest.length + 1;
    while (String(length).length + rest.length > length) length++;
    return `${length}${rest}`;
  });
  const text = Buffer.from(lines.join(""));
  return Buffer.concat([header({ name: "PaxHeaders/x", sizeBytes: text.length, type: "x" }), padded(text)]);
}

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
  const names = (found: readonly Found[]) => found.map(({ name, isFile }) => (isFile ? name : `(${name})`)).join(" ");
  const LONG = `${"folder/".repeat(40)}image`;
  const rows: [string, Buffer[], string][] = [
    ["files", [file("a", "1"), file("image", "2")], "a image"],
    ["no magic, as of old", [header({ name: "image", magic: "" })], "image"],
    ["GNU's magic", [header({ name: "image", magic: "ustar  \0" })], "image"],
    ["a prefix", [header({ name: "image", prefix: "x" })], "x/image"],
    [
      "an entry that is no file",
      ["1", "2", "3", "4", "5", "6", "7", "S", "?"].map((type) => header({ name: "image", type })),
      Array(9).fill("(image)").join(" "),
    ],
    ["a pax path", [pax(["path", LONG]), file("PaxHeaders/cut", "")], LONG],
    [
      "a long name of GNU tar",
      [
        header({ name: "././@LongLink", sizeBytes: LONG.length, type: "L" }),
        padded(Buffer.from(LONG)),
        file("cut", ""),
      ],
      LONG,
    ],
    ["pax times", [pax(["mtime", "1700000000.25"], ["comment", "none"]), file("image", "x")], "image"],
    [
      "a pax header for all",
      [
        header({ name: "global", type: "g", sizeBytes: 20 }),
        padded(Buffer.from("20 comment=aaaaaaaa\n")),
        file("image", "x"),
      ],
      "image",
    ],
    ["no blocks of zeros at the end", [file("image", "x"), END.subarray(0, 0)], "image"],
    ["many blocks of zeros at the end", [file("image", "x"), Buffer.alloc(10_240)], "image"],
  ];
  for (const [what, parts, effect] of rows)
    it(`${what} -> ${effect.length > 80 ? "all of it" : effect}`, async () => {
      const archive = Buffer.concat([...parts, ...(what.startsWith("no blocks") ? [] : [END])]);
      for (const options of [{}, { pieceBytes: 16_384 }, { skip: true }, { pieceBytes: 512, skip: true }])
        expect(names(await read(archive, options)), JSON.stringify(options)).to.equal(effect);
    });

  it("contents of all lengths, in chunks of all lengths -> unchanged", async () => {
    const texts = [0, 1, 511, 512, 513, 1_024, 40_000].map((length) => "0123456789".repeat(4_001).slice(0, length));
    const archive = Buffer.concat([...texts.map((text, n) => file(`f${n}`, text)), END]);
    for (const pieceBytes of [7, 512, 65_536]) {
      expect((await read(archive, { pieceBytes })).map(({ text }) => text)).to.deep.equal(texts);
      expect(await read(archive, { pieceBytes, skip: true })).to.have.lengthOf(texts.length);
    }
  });

  const sizes: [string, Buffer[], number][] = [
    ["pax, as GNU tar writes it", [pax(["size", String(HUGE_BYTES)]), header({ name: "image" })], HUGE_BYTES],
    [
      "pax beside a size that is cut",
      [pax(["size", String(HUGE_BYTES)]), header({ name: "image", size: Buffer.from("77777777777\0") })],
      HUGE_BYTES,
    ],
    ["base 256", [header({ name: "image", size: base256(BigInt(HUGE_BYTES)) })], HUGE_BYTES],
    ["octal digits", [header({ name: "image", sizeBytes: 8 * GIB_BYTES - 1 })], 8 * GIB_BYTES - 1],
  ];
  for (const [how, parts, sizeBytes] of sizes)
    it(`a size by ${how} -> ${sizeBytes} bytes, streamed`, async () => {
      // A sparse image begins with zeros, which must not be taken for the zero blocks at the end of an archive.
      const zeros = Buffer.alloc(65_536);
      let sentBytes = 0;
      async function* endless() {
        yield Buffer.concat(parts);
        for (;;) {
          sentBytes += zeros.length;
          yield zeros;
        }
      }
      for await (const entry of tarEntries(endless())) {
        expect(entry).to.include({ name: "image", sizeBytes, isFile: true });
        let readBytes = 0;
        for await (const piece of entry.content) {
          expect(piece.every((byte) => byte === 0)).to.equal(true);
          readBytes += piece.length;
          if (readBytes >= 1024 ** 2) break;
        }
        expect(readBytes).to.be.at.least(1024 ** 2);
        break;
      }
      expect(sentBytes, "no more is taken in than is read").to.be.below(2 * 1024 ** 2);
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
    [
      "a wrong checksum",
      [Buffer.concat([Buffer.from("x"), file("image", "x").subarray(1)])],
      /not a tar archive, or is damaged/,
    ],
    ["cut in a file", [file("image", "x".repeat(2_000)).subarray(0, 1_000)], /not a tar archive, or is damaged/],
    ["cut in a header", [file("image", "").subarray(0, 300)], /not a tar archive, or is damaged/],
    [
      "a size below zero",
      [header({ name: "image", size: base256(2n ** 64n - 1n, 0xff) })],
      /not a tar archive, or is damaged/,
    ],
    ["a size of no kind", [header({ name: "image", size: base256(5n, 0x90) })], /size/],
    ["a size beyond all numbers", [header({ name: "image", size: base256(2n ** 60n) })], /size/],
    ["a pax size below zero", [pax(["size", "-512"]), header({ name: "image" })], /not a tar archive, or is damaged/],
    ["a pax size that is none", [pax(["size", "many"]), header({ name: "image" })], /not a tar archive, or is damaged/],
    [
      "a pax header without end",
      [header({ name: "x", type: "x", sizeBytes: 4_000_000 }), Buffer.alloc(4_000_000, "1")],
      /more than 65536 bytes of headers/,
    ],
    [
      "pax headers without end",
      Array(200).fill(pax(["comment", "x".repeat(1_000)])),
      /more than 65536 bytes of headers/,
    ],
  ];
  for (const [what, parts, says] of bad)
    it(`${what} -> refused, whether read or skipped`, async () => {
      const archive = Buffer.concat([...parts, ...(what.startsWith("cut") ? [] : [END])]);
      for (const skip of [false, true])
        for (const pieceBytes of [512, 16_384]) {
          await rejection(read(archive, { pieceBytes, skip }), InvalidArgumentError, says);
        }
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

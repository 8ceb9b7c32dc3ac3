import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { messageOf } from "@diskmesh/domain";
import type { Clients } from "../../mesh/clients.js";
import type { Random } from "../../random.js";
import { jsonText, randomBytes, spoilBytes, spoilJson, strangeText } from "../strange.js";
import { Counts, Find, type Surface } from "../surface.js";

interface StemcellInput {
  readonly digest: string;
  /** Upload in base64, one entry per message. */
  readonly chunks: readonly string[];
}

const IMAGE = Buffer.from("an image");
const MANIFEST = {
  name: "fuzz",
  version: "1",
  sha1: createHash("sha1").update(IMAGE).digest("hex"),
  operating_system: "fuzz",
  stemcell_formats: ["raw"],
  cloud_properties: { a: 1 },
  api_version: 3,
};
const NAMES = [
  "stemcell.MF",
  "./stemcell.MF",
  "image",
  "./image",
  "../image",
  "/etc/passwd",
  "packages.txt",
  "././@LongLink",
];
const TYPES = ["0", "\0", "1", "2", "5", "L", "x", "g", "S"];

/** Uploaded archives with arbitrary contents. */
export class StemcellsSurface implements Surface {
  readonly name = "stemcells";
  readonly atOnce = 3;
  readonly counts = new Counts();

  constructor(private readonly stemcells: Clients["stemcells"]) {}

  next(random: Random): Buffer {
    const tgz = archive(random);
    const sha256 = `sha256:${createHash("sha256").update(tgz).digest("hex")}`;
    const digest = random.chance(0.85)
      ? ""
      : random.chance(0.5)
        ? sha256
        : random.pick([`${sha256}0`, "0".repeat(40), strangeText(random)]);
    return Buffer.from(JSON.stringify({ digest, chunks: pieces(random, tgz) } satisfies StemcellInput));
  }

  async send(input: Buffer): Promise<void> {
    const { digest, chunks } = JSON.parse(input.toString()) as StemcellInput;
    async function* upload() {
      yield { part: { $case: "header" as const, value: { digest } } };
      for (const chunk of chunks) yield { part: { $case: "chunk" as const, value: Buffer.from(chunk, "base64") } };
    }
    try {
      await this.stemcells.uploadStemcell(upload(), { deadlineMs: 20_000 });
      this.counts.add("taken");
    } catch (error) {
      const message = messageOf(error);
      if (/internal error; the server/.test(message)) throw new Find(`an upload is answered as a bug: ${message}`);
      this.counts.add((error as Error).name);
    }
  }
}

function archive(random: Random): Buffer {
  const manifest = random.chance(0.5) ? MANIFEST : spoilJson(random, MANIFEST);
  const parts = [entry(random, "stemcell.MF", jsonText(random, manifest)), entry(random, "image", IMAGE)];
  for (let count = random.pick([0, 0, 1, 3, 120]); count > 0; count--)
    parts.splice(
      random.below(3),
      0,
      entry(
        random,
        random.chance(0.6) ? random.pick(NAMES) : strangeText(random),
        randomBytes(random, random.pick([0, 1, 512, 5_000])),
      ),
    );
  if (random.chance(0.9)) parts.push(Buffer.alloc(1_024));
  let tar = Buffer.concat(parts);
  if (random.chance(0.01)) tar = Buffer.concat([tar, Buffer.alloc(random.pick([1, 16]) * 1024 * 1024)]);
  const tgz = gzipSync(random.chance(0.3) ? spoilBytes(random, tar) : tar, { level: 1 });
  return random.chance(0.2) ? spoilBytes(random, tgz) : tgz;
}

function entry(random: Random, name: string, content: Buffer): Buffer {
  const header = Buffer.alloc(512);
  header.write(name.slice(0, 100), 0, "latin1");
  header.write("0000644\0", 100);
  const size = random.chance(0.95) ? content.length : random.pick([0, content.length + 1, 2 ** 33 - 1]);
  header.write(`${size.toString(8).padStart(11, "0").slice(-11)}\0`, 124);
  if (random.chance(0.02)) Buffer.concat([Buffer.from([0x80]), randomBytes(random, 11)]).copy(header, 124);
  header.write(random.chance(0.9) ? "0" : random.pick(TYPES), 156);
  if (random.chance(0.7)) header.write("ustar\x0000", 257);
  if (random.chance(0.05)) header.write(strangeText(random).slice(0, 155), 345, "latin1");
  header.write("        ", 148);
  const sum = random.chance(0.97) ? header.reduce((total, byte) => total + byte, 0) : random.below(99_999);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return Buffer.concat([header, content, Buffer.alloc((512 - (content.length % 512)) % 512)]);
}

function pieces(random: Random, bytes: Buffer): string[] {
  if (random.chance(0.02)) return [];
  const size = random.pick([bytes.length + 1, 100, 1_000, 65_536]);
  const count = Math.min(200, Math.ceil(bytes.length / size));
  return Array.from({ length: count }, (_, index) =>
    bytes.subarray(index * size, index === count - 1 ? undefined : (index + 1) * size).toString("base64"),
  );
}

import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";

/** Makes a stemcell in BOSH's format. */
export function stemcellFile(
  manifest: object = {},
  {
    image = "an image",
    packages = "ignored",
    files = ["stemcell.MF", "image"],
  }: { image?: string; packages?: string; files?: readonly string[] } = {},
): Buffer {
  const sha1 = createHash("sha1").update(image).digest("hex");
  const whole = {
    name: "ubuntu",
    version: "1.10",
    operating_system: "ubuntu-noble",
    sha1,
    api_version: 3,
    ...manifest,
  };
  const contents = new Map([
    ["stemcell.MF", JSON.stringify(whole)],
    ["image", image],
    ["packages.txt", packages],
  ]);
  return tgzOf(files.map((name) => [name, contents.get(name.replace(/^\.\//, "")) ?? ""]));
}

const TAR_BLOCK_BYTES = 512;

/**
 * Makes a gzipped tar file (ustar) with short names. Tests of the reader also use archives made by the system's tar.
 */
function tgzOf(files: readonly (readonly [name: string, content: string])[]): Buffer {
  const blocks = files.flatMap(([name, content]) => {
    const bytes = Buffer.from(content);
    const padding = Buffer.alloc((TAR_BLOCK_BYTES - (bytes.length % TAR_BLOCK_BYTES)) % TAR_BLOCK_BYTES);
    return [tarHeader(name, bytes.length), bytes, padding];
  });
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * TAR_BLOCK_BYTES)]));
}

function tarHeader(name: string, sizeBytes: number): Buffer {
  const header = Buffer.alloc(TAR_BLOCK_BYTES);
  const octal = (value: number, length: number): string => `${value.toString(8).padStart(length - 1, "0")}\0`;
  header.write(name, 0);
  header.write(`${octal(0o644, 8)}${octal(0, 8)}${octal(0, 8)}${octal(sizeBytes, 12)}${octal(0, 12)}`, 100);
  // The checksum counts its own field as spaces.
  header.write(`${" ".repeat(8)}0`, 148);
  header.write("ustar\0" + "00", 257);
  header.write(
    octal(
      header.reduce((sum, byte) => sum + byte, 0),
      7,
    ),
    148,
  );
  return header;
}

import { type BigIntStats, constants } from "node:fs";
import { open } from "node:fs/promises";

declare const WebAssembly: {
  readonly Memory: new (size: { readonly initial: number }) => { readonly buffer: ArrayBuffer };
};

const READ_ONLY = constants.O_RDONLY | constants.O_NONBLOCK;
const PAGE_BYTES = 65_536;

interface ReadFile {
  /** Fewer than asked for where the file ends. */
  readonly bytes: Buffer;
  readonly stats: BigIntStats;
}

/** Reads bytes of a file past the kernel's cache, or through it where the file or the place allows no such reads. */
export async function readDirect(path: string, offsetBytes: number, lengthBytes: number): Promise<ReadFile> {
  try {
    return await readWith(READ_ONLY | constants.O_DIRECT, path, offsetBytes, lengthBytes);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EINVAL") throw error;
    return readWith(READ_ONLY, path, offsetBytes, lengthBytes);
  }
}

async function readWith(flags: number, path: string, offsetBytes: number, lengthBytes: number): Promise<ReadFile> {
  await using file = await open(path, flags);
  const buffer = alignedBuffer(lengthBytes);
  const { bytesRead } = await file.read(buffer, 0, lengthBytes, offsetBytes);
  return { bytes: buffer.subarray(0, bytesRead), stats: await file.stat({ bigint: true }) };
}

/** Returns a buffer of zeros that begins at a page, as I/O past the kernel's cache requires. */
export function alignedBuffer(lengthBytes: number): Buffer {
  // Memory of WebAssembly begins at a page.
  const { buffer } = new WebAssembly.Memory({ initial: Math.ceil(lengthBytes / PAGE_BYTES) });
  return Buffer.from(buffer, 0, lengthBytes);
}

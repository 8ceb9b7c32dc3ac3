import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { pack } from "tar-stream";

export interface PackedFile {
  readonly name: string;
  readonly path: string;
  readonly sizeBytes: number;
}

/** The lowest gzip level, because the packed files are already compressed. */
const LITTLE_EFFORT = { level: 1 };

/** Yields a tgz of the files, packed on the fly. */
export async function* packed(files: readonly PackedFile[], nowMs: number): AsyncGenerator<Buffer> {
  const tar = pack();
  const tgz = createGzip(LITTLE_EFFORT);
  const feeding = feed(tar, files, nowMs).catch((error: Error) => tgz.destroy(error));
  const zipping = pipeline(tar as unknown as AsyncIterable<Buffer>, tgz).catch(() => {});
  try {
    yield* tgz;
  } finally {
    tar.destroy();
    await Promise.all([feeding, zipping]);
  }
}

async function feed(tar: ReturnType<typeof pack>, files: readonly PackedFile[], nowMs: number): Promise<void> {
  for (const { name, path, sizeBytes: size } of files) {
    const header = { name, size, mode: 0o600, mtime: new Date(nowMs) };
    await pipeline(createReadStream(path), tar.entry(header) as unknown as NodeJS.WritableStream);
  }
  tar.finalize();
}

import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { DomainError, InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { extract } from "tar-stream";
import { CODES, coded } from "../tasks/bosh-codes.js";

const BLOCK_BYTES = 512;
/**
 * Maximum bytes between the contents of two files: headers, extensions and final zero blocks. The library parses an
 * extension of up to 4 MiB at once, which would block the event loop for seconds.
 */
const MAX_HEADERS_BYTES = 64 * 1024;

/** Accepts headers without a magic text. The library's types lack this option. */
const ALSO_OLD_FORMATS: object = { allowUnknownFormat: true };

/** An archive entry with streamed content. Unread content is skipped when the next entry is requested. */
export interface TarEntry {
  readonly name: string;
  readonly sizeBytes: number;
  readonly isFile: boolean;
  readonly content: AsyncIterable<Buffer>;
}

/** Yields a tar archive's entries in order. Names are only compared, never used as paths. */
export async function* tarEntries(bytes: AsyncIterable<Buffer>): AsyncGenerator<TarEntry> {
  let fileEndBytes = 0;
  async function* withoutLongHeaders(): AsyncGenerator<Buffer> {
    let sizeBytes = 0;
    for await (const piece of bytes) {
      if (sizeBytes - fileEndBytes > MAX_HEADERS_BYTES)
        throw refused("tar archive", `it has more than ${MAX_HEADERS_BYTES} bytes of headers in one place`);
      sizeBytes += piece.length;
      yield piece;
    }
  }
  for await (const entry of through(withoutLongHeaders(), extract(ALSO_OLD_FORMATS), "tar archive")) {
    // A directory has no content, whatever its header says. The library would wait forever for it.
    if (entry.header.type === "directory") entry.header.size = 0;
    const { name, type, size: sizeBytes } = entry.header;
    // The library waits forever for the content of an entry with an unparsable size.
    if (!Number.isSafeInteger(sizeBytes)) throw refused("tar archive", "a size is out of range");
    fileEndBytes = entry.offset + BLOCK_BYTES + sizeBytes;
    yield {
      name,
      sizeBytes,
      isFile: type === "file",
      content: toldAs<Buffer>("tar archive", entry as AsyncIterable<Buffer>),
    };
    entry.resume();
  }
}

/** Yields the content of a gzip file. */
export function unzipped(bytes: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  return through(bytes, createGunzip(), "gzip file");
}

/** Yields a stream's output for the input bytes, with backpressure. */
async function* through<T>(
  bytes: AsyncIterable<Buffer>,
  stream: AsyncIterable<T> & { destroy(): unknown },
  format: string,
): AsyncGenerator<T> {
  const feeding = pipeline(bytes, stream as unknown as Writable).catch(() => {});
  try {
    yield* toldAs(format, stream);
  } finally {
    stream.destroy();
    await feeding;
  }
}

/**
 * Wraps parser errors. Domain errors come from the input (too long, too slow, cancelled) and are rethrown unchanged.
 */
async function* toldAs<T>(format: string, stream: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* stream;
  } catch (error) {
    throw error instanceof DomainError ? error : refused(format, messageOf(error), error);
  }
}

function refused(format: string, why: string, cause?: unknown): InvalidArgumentError {
  return coded(
    CODES.badStemcell,
    new InvalidArgumentError(`the stemcell is not a ${format}, or is damaged: ${why}`, { cause }),
  );
}

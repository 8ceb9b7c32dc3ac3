import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { DomainError, InvalidArgumentError, messageOf } from "@diskmesh/domain";
import { extract } from "tar-stream";
import { CODES, coded } from "../tasks/bosh-codes.js";

const BLOCK_BYTES = 512;
/**
 * Bound of the bytes between two files: a header, extensions with names and times, blocks of zeros at the end. The
 * library reads an extension of up to 4 MiB as a whole, in seconds in which nobody else would be answered.
 */
const MAX_HEADERS_BYTES = 64 * 1024;

/** An option that the library's types lack: headers without a magic text are taken, too. */
const ALSO_OLD_FORMATS: object = { allowUnknownFormat: true };

/** An entry of an archive. Its content comes in pieces; what nobody reads is skipped with the next entry. */
export interface TarEntry {
  readonly name: string;
  readonly sizeBytes: number;
  readonly isFile: boolean;
  readonly content: AsyncIterable<Buffer>;
}

/** The entries of a tar archive in the order in which they come. Names are only compared, never used as paths. */
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
    const { name, type, size: sizeBytes } = entry.header;
    // The library waits for ever for content whose size it does not understand.
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

/** Yields a stream's output for the bytes, which are read no faster than the output. */
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

/** Errors of the domain are those of what comes: it was too long, or too slow, or was cancelled. */
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
    new InvalidArgumentError(`the stemcell is no ${format}, or damaged: ${why}`, { cause }),
  );
}

import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { messageOf } from "@diskmesh/domain";
import { UsageError } from "./exit-codes.js";

/**
 * Streams pieces to a file, synced to disk when this resolves. Only the owner may read the file, because it may contain
 * credentials.
 */
export async function writePieces(
  what: string,
  path: string,
  pieces: () => AsyncIterable<{ readonly piece: Buffer }>,
): Promise<void> {
  const file = createWriteStream(path, { mode: 0o600, flush: true });
  const failed = (error: unknown): never => {
    throw new UsageError(`cannot write ${what}: ${messageOf(error)}`);
  };
  const closed = once(file, "close").catch(failed);
  // Handled here, because the stream may fail before the promise is awaited.
  closed.catch(() => {});
  await once(file, "open").catch(failed);
  try {
    for await (const { piece } of pieces()) if (!file.write(piece)) await once(file, "drain");
  } finally {
    file.end();
    await closed;
  }
}

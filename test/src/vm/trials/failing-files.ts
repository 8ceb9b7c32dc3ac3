import { type FileHandle, open } from "node:fs/promises";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { BLOCK_BYTES } from "./checked-writer.js";

/** Writes to a new file and syncs it, again and again; resolves to the code of the error that ends it. */
export async function writeUntilFailure(path: string): Promise<string> {
  let file: FileHandle | undefined;
  try {
    file = await open(path, "w");
    for (;;) {
      await file.write(Buffer.alloc(BLOCK_BYTES, 1), 0, BLOCK_BYTES, 0);
      await file.sync();
    }
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  } finally {
    await file?.close();
  }
}

/** Syncs a file whose newest bytes cannot be written. */
export async function expectSyncToFail(path: string): Promise<void> {
  await using file = await open(path, "r+");
  expect((await rejection(file.sync(), Error)).message).to.match(/^EIO/);
}

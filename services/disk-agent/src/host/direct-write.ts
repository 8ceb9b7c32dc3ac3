import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { alignedBuffer } from "./direct-read.js";

const DURABLE = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_DSYNC;

/**
 * Writes bytes of a file past the kernel's cache, or through it where the file or the place allows no such writes. Resolves
 * once they are on the drive.
 */
export async function writeDirect(path: string, offsetBytes: number, bytes: Uint8Array): Promise<void> {
  const aligned = alignedBuffer(bytes.length);
  aligned.set(bytes);
  try {
    await writeWith(DURABLE | constants.O_DIRECT, path, offsetBytes, aligned);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EINVAL") throw error;
    await writeWith(DURABLE, path, offsetBytes, aligned);
  }
}

async function writeWith(flags: number, path: string, offsetBytes: number, bytes: Buffer): Promise<void> {
  await using file = await open(path, flags);
  for (let done = 0; done < bytes.length; )
    done += (await file.write(bytes, done, bytes.length - done, offsetBytes + done)).bytesWritten;
}

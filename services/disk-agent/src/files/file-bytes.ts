import { MIB_BYTES } from "@diskmesh/domain";
import type { OpenHandle } from "./open-file.js";

/**
 * - `discard`: the bytes are unused; they read as zeros where the file system can free their space, else unchanged.
 * - `zero`: the bytes read as zeros; their space is freed where the file system can.
 * - `write zeros`: the bytes read as zeros and keep their space.
 */
export type ClearKind = "discard" | "zero" | "write zeros";

export interface WriteOptions {
  /** True: done only once the change is on the device. */
  readonly fua: boolean;
  /** True: writes past the kernel's caches, durably, also where the kernel carries the session. */
  readonly isPastCaches?: true | undefined;
}

export interface ClearOptions extends WriteOptions {
  readonly kind: ClearKind;
}

/** Maximum bytes of one clearing system call, so that a fence does not wait long for it. */
const MAX_CLEAR_BYTES = 64 * MIB_BYTES;
const ZEROS = Buffer.alloc(MIB_BYTES);

/** Byte range of at most MAX_CLEAR_BYTES. */
export interface ClearChunk {
  readonly startBytes: number;
  readonly sizeBytes: number;
}

export function* clearChunks(offsetBytes: number, lengthBytes: number): Generator<ClearChunk> {
  for (let done = 0; done < lengthBytes; done += MAX_CLEAR_BYTES)
    yield { startBytes: offsetBytes + done, sizeBytes: Math.min(MAX_CLEAR_BYTES, lengthBytes - done) };
}

/** Reads until the buffer is full or the file ends. Returns the number of bytes read. */
export async function readBytes(handle: OpenHandle, offsetBytes: number, data: Buffer): Promise<number> {
  for (let done = 0; done < data.length; ) {
    const { bytesRead } = await handle.read(data, done, data.length - done, offsetBytes + done);
    if (bytesRead === 0) return done;
    done += bytesRead;
  }
  return data.length;
}

export async function writeBytes(handle: OpenHandle, offsetBytes: number, data: Uint8Array): Promise<void> {
  for (let done = 0; done < data.length; ) {
    const { bytesWritten } = await handle.write(data, done, data.length - done, offsetBytes + done);
    done += bytesWritten;
  }
}

/** Writes past the kernel's cache where that is possible, else syncs. Resolves once the bytes are on the drive. */
export async function writeDurably(
  handle: OpenHandle,
  startBytes: number,
  data: Uint8Array,
  sync: () => Promise<void>,
): Promise<void> {
  if (handle.writeBack) return handle.writeBack(startBytes, data);
  await writeBytes(handle, startBytes, data);
  await sync();
}

/** Returns the bytes there; fewer where the file ends. `fromDrive` reads past the kernel's cache where that is possible. */
export async function readUpTo(
  handle: OpenHandle,
  startBytes: number,
  lengthBytes: number,
  fromDrive: boolean,
): Promise<Buffer> {
  if (fromDrive && handle.readBack) return handle.readBack(startBytes, lengthBytes);
  const bytes = Buffer.alloc(lengthBytes);
  return bytes.subarray(0, await readBytes(handle, startBytes, bytes));
}

/** Clears bytes of an open file as `kind` says. */
export async function clearBytes(
  handle: OpenHandle,
  offsetBytes: number,
  lengthBytes: number,
  kind: ClearKind,
): Promise<void> {
  if (kind !== "write zeros" && (await handle.punchHole(offsetBytes, lengthBytes))) return;
  if (kind === "discard") return;
  for (let done = 0; done < lengthBytes; done += ZEROS.length)
    await writeBytes(handle, offsetBytes + done, ZEROS.subarray(0, lengthBytes - done));
}

import { messageOf } from "@diskmesh/domain";
import type { Pace } from "../base/pace.js";
import { beginAt, noteChunk, noteFlushed, noteWritten, writtenBytes } from "../model/copy-mark.js";
import type { DiskPart } from "../parts/disk-part.js";

export interface CopyLimits {
  /** Size in bytes of one read and write. */
  readonly chunkBytes: number;
  /** Maximum chunks of a copy that are read or written at once. */
  readonly maxInFlight: number;
  /** Bytes after which the target is flushed, so that its last flush takes no longer than any other. */
  readonly flushEveryBytes: number;
}

interface CopyOptions {
  readonly source: Pick<DiskPart, "read">;
  readonly target: Pick<DiskPart, "write" | "clear" | "flush">;
  readonly sizeBytes: number;
  /** The target has all bytes below. */
  readonly startBytes: number;
  readonly limits: CopyLimits;
  readonly pace: Pace;
  /** Ends the copy before its next chunk. */
  readonly signal: AbortSignal;
  /** Excludes writes of a range while it is copied; resolves with the function that admits them again. */
  readonly lock?: (startBytes: number, sizeBytes: number) => Promise<() => void>;
  /** Called when all bytes below are written. */
  readonly onCopied: (copiedBytes: number) => void;
  /** Called when the target has all bytes below, durably. */
  readonly onDurable?: (durableBytes: number) => void;
}

/** Thrown when a device has failed during a copy. */
export class CopyError extends Error {
  override readonly name = "CopyError";

  constructor(
    readonly at: "source" | "target",
    override readonly cause: unknown,
  ) {
    super(messageOf(cause));
  }
}

/**
 * Copies all bytes, and flushes the target. Clears chunks of zeros, which frees their space where the target can. Has no
 * I/O in flight when it has rejected. Throws CopyError.
 */
export async function copyBytes(options: CopyOptions): Promise<void> {
  const { target, sizeBytes, startBytes: firstBytes, limits, pace, signal, lock, onCopied, onDurable } = options;
  const zeros = Buffer.alloc(limits.chunkBytes);
  let mark = beginAt(firstBytes);
  let unflushedBytes = 0;
  let failure: { readonly error: unknown } | undefined;
  const flush = async (): Promise<void> => {
    const belowBytes = writtenBytes(mark);
    await on("target", target.flush());
    mark = noteFlushed(mark, belowBytes);
    onDurable?.(mark.durableBytes);
  };
  const copySome = async (): Promise<void> => {
    while (mark.nextBytes < sizeBytes && failure === undefined) {
      const startBytes = mark.nextBytes;
      const length = Math.min(limits.chunkBytes, sizeBytes - startBytes);
      mark = noteChunk(mark, length);
      await pace.wait(length, signal);
      const release = await lock?.(startBytes, length);
      try {
        signal.throwIfAborted();
        await copyChunk(options, startBytes, zeros.subarray(0, length));
        mark = noteWritten(mark, startBytes);
      } finally {
        release?.();
      }
      onCopied(writtenBytes(mark));
      unflushedBytes += length;
      if (unflushedBytes < limits.flushEveryBytes) continue;
      unflushedBytes = 0;
      await flush();
    }
  };
  const workers = Array.from({ length: limits.maxInFlight }, () =>
    copySome().catch((error: unknown) => {
      failure ??= { error };
    }),
  );
  await Promise.all(workers);
  if (failure !== undefined) throw failure.error;
  signal.throwIfAborted();
  await flush();
}

async function copyChunk({ source, target }: CopyOptions, startBytes: number, zeros: Buffer): Promise<void> {
  const length = zeros.length;
  const data = await on("source", source.read(startBytes, length));
  const isZero = zeros.equals(data);
  if (isZero) await on("target", target.clear(startBytes, length, { kind: "zero", fua: false }));
  else await on("target", target.write(startBytes, data, false));
}

/** Returns the result of I/O on a device of a copy. Throws CopyError. */
export async function on<T>(at: CopyError["at"], io: Promise<T>): Promise<T> {
  try {
    return await io;
  } catch (error) {
    throw new CopyError(at, error);
  }
}

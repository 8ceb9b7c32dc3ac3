import { createRequire } from "node:module";

interface NativeFiles {
  /**
   * Takes an exclusive lock; length 0 reaches to the end of the file, also when it grows. Returns false when another
   * lock overlaps.
   */
  tryLock(fd: number, offset: number, length: number): boolean;
  unlock(fd: number, offset: number, length: number): void;
  /** Deallocates bytes, which read as zeros then. The size of the file stays. */
  trim(fd: number, offset: number, length: number): Promise<void>;
  /** Exchanges two names in one step. */
  swap(one: string, other: string): Promise<void>;
}

const require = createRequire(import.meta.url);

// The addon is loaded on first use, because an import would fail without a readable reason on machines it was not built
// for.
export const native = (): NativeFiles => require("fs-native-extensions") as NativeFiles;

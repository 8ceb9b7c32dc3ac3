import { readdirSync } from "node:fs";
import * as nodeFiles from "node:fs/promises";

/** File system calls of the embedded store. Tests replace them by a simulated file system that can lose power. */
export interface Files {
  /** `ax` creates the file and fails with EEXIST when it exists; `a` creates it when missing; `w` also empties it. */
  open(path: string, flags: "r" | "a" | "ax" | "w"): Promise<OpenFile>;
  /**
   * Returns the names in a folder. Synchronous, because it runs twice per commit and the kernel has the answer in its
   * cache.
   */
  list(folder: string): string[];
  makeFolder(folder: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Removes a file; a missing file is no error. */
  remove(path: string): Promise<void>;
  /** Syncs a folder, which makes created, renamed and removed names in it durable. */
  syncFolder(folder: string): Promise<void>;
  freeBytes(folder: string): Promise<number>;
}

export interface OpenFile {
  stat(): Promise<{ readonly size: number; readonly ino: number }>;
  read(buffer: Buffer, offset: number, length: number, position: number): Promise<{ readonly bytesRead: number }>;
  appendFile(bytes: Buffer): Promise<void>;
  truncate(sizeBytes: number): Promise<void>;
  /** Syncs content and length to the disk. */
  datasync(): Promise<void>;
  close(): Promise<void>;
}

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

export const systemFiles: Files = {
  open: (path, flags) => nodeFiles.open(path, flags, FILE_MODE),
  list: (folder) => readdirSync(folder),
  makeFolder: async (folder) => {
    await nodeFiles.mkdir(folder, { recursive: true, mode: FOLDER_MODE });
  },
  rename: nodeFiles.rename,
  remove: (path) => nodeFiles.rm(path, { force: true }),
  async syncFolder(folder) {
    const handle = await nodeFiles.open(folder, "r");
    await handle.sync().finally(() => handle.close());
  },
  async freeBytes(folder) {
    const { bavail, bsize } = await nodeFiles.statfs(folder);
    return bavail * bsize;
  },
};

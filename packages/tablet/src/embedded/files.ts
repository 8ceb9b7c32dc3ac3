import { readdirSync } from "node:fs";
import * as nodeFiles from "node:fs/promises";
import { swapNames } from "@diskmesh/file-lock";

/** File system calls of the embedded store. Tests replace them by a simulated file system that can lose power. */
export interface Files {
  /** `ax` creates the file and fails with EEXIST when it exists; `a` creates it when missing; `w` also empties it. */
  open(path: string, flags: "r" | "a" | "ax" | "w"): Promise<OpenFile>;
  /**
   * Returns the names in a folder. Synchronous, because it runs twice per commit and the kernel has the answer in its
   * cache.
   */
  list(folder: string): string[];
  /** Creates one folder; fails with EEXIST when it exists, and with ENOENT when its parent does not. */
  makeFolder(folder: string): Promise<void>;
  /** Renames a file or folder. */
  rename(from: string, to: string): Promise<void>;
  /** Exchanges the names of two folders in one step; fails with EINVAL on a file system that cannot. */
  swap(one: string, other: string): Promise<void>;
  /** Removes a folder with its files. */
  removeFolder(folder: string): Promise<void>;
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
  makeFolder: (folder) => nodeFiles.mkdir(folder, { mode: FOLDER_MODE }),
  rename: nodeFiles.rename,
  swap: swapNames,
  removeFolder: (folder) => nodeFiles.rm(folder, { recursive: true }),
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

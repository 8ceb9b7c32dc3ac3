import { readdirSync } from "node:fs";
import * as nodeFiles from "node:fs/promises";

/** The file system calls of the embedded store. Tests pass a file system whose power they cut. */
export interface Files {
  /** `ax` creates the file and fails with EEXIST where it exists, `a` creates it where it is missing, `w` also empties it. */
  open(path: string, flags: "r" | "a" | "ax" | "w"): Promise<OpenFile>;
  /** The names in a folder. Synchronous, because a commit asks twice and the answer is cached by the kernel. */
  list(folder: string): string[];
  makeFolder(folder: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Removes a file; one that is missing is no error. */
  remove(path: string): Promise<void>;
  /** Makes what was created, renamed and removed in a folder durable. */
  syncFolder(folder: string): Promise<void>;
  freeBytes(folder: string): Promise<number>;
}

/** An open file, as Node's FileHandle. */
export interface OpenFile {
  stat(): Promise<{ readonly size: number; readonly ino: number }>;
  read(buffer: Buffer, offset: number, length: number, position: number): Promise<{ readonly bytesRead: number }>;
  appendFile(bytes: Buffer): Promise<void>;
  truncate(sizeBytes: number): Promise<void>;
  /** Makes content and length durable. */
  datasync(): Promise<void>;
  close(): Promise<void>;
}

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/** The file system of the operating system. */
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

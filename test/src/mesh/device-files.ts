import {
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";

/** Bytes that a small device keeps before its first slice, for a label, and each run before its data, for a record. */
export const HEAD_BYTES = 64 * 1_024;

/** Creates a sparse device file of zeros. */
export function makeDeviceFile(path: string, sizeBytes: number): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
  truncateSync(path, sizeBytes);
  return path;
}

/** Range of a device in its file. */
export interface FileRange {
  readonly path: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** Fills the range with data, like a former user. */
export function fillRange({ path, offsetBytes, sizeBytes }: FileRange): void {
  const file = openSync(path, "r+");
  writeSync(file, Buffer.alloc(sizeBytes, "somebody's "), 0, sizeBytes, offsetBytes);
  closeSync(file);
}

export function isZero({ path, offsetBytes, sizeBytes }: FileRange): boolean {
  const file = openSync(path, "r");
  const bytes = Buffer.alloc(sizeBytes, "not read");
  readSync(file, bytes, 0, sizeBytes, offsetBytes);
  closeSync(file);
  return bytes.equals(Buffer.alloc(sizeBytes));
}

/**
 * Returns the files that a process holds open, once for each descriptor; with `forWriting` only those that it can write.
 * A deleted file ends with " (deleted)". Empty when the process has ended.
 */
export function openFiles(pid: number, forWriting = false): string[] {
  const folder = `/proc/${pid}/fd`;
  const paths: string[] = [];
  let descriptors: string[];
  try {
    descriptors = readdirSync(folder);
  } catch {
    return [];
  }
  for (const descriptor of descriptors) {
    try {
      const path = readlinkSync(join(folder, descriptor));
      if (!forWriting || canWrite(pid, descriptor)) paths.push(path);
    } catch {
      // The descriptor was closed since the folder was listed.
    }
  }
  return paths;
}

function canWrite(pid: number, descriptor: string): boolean {
  const [, flags = "0"] = /^flags:\s*([0-7]+)/m.exec(readFileSync(`/proc/${pid}/fdinfo/${descriptor}`, "utf8")) ?? [];
  return (Number.parseInt(flags, 8) & (constants.O_WRONLY | constants.O_RDWR)) !== 0;
}

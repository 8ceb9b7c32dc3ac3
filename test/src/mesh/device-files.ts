import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  readSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";

/** A device file of zeros, that takes no space. */
export function makeDeviceFile(path: string, sizeBytes: number): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
  truncateSync(path, sizeBytes);
  return path;
}

/** A device's place in its file. */
export interface FileRange {
  readonly path: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** Writes something onto all of it, as if it had been somebody's. */
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
 * The files that a process holds open, from its own descriptor table, each as often as it is open. One that was removed
 * ends with " (deleted)". Empty when the process is gone.
 */
export function openFiles(pid: number): string[] {
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
      paths.push(readlinkSync(join(folder, descriptor)));
    } catch {
      // Closed between the listing and the look.
    }
  }
  return paths;
}

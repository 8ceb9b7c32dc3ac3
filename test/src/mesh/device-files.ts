import { mkdirSync, readdirSync, readlinkSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** A device file of zeros, that takes no space. */
export function makeDeviceFile(path: string, sizeBytes: number): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
  truncateSync(path, sizeBytes);
  return path;
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

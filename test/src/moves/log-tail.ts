import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const POLL_MS = 2;

/** Resolves once a process has logged a line that matches, from now on; false when `isOver` says so first. */
export async function logged(file: string, line: RegExp, isOver: () => boolean): Promise<boolean> {
  const descriptor = openSync(file, "r");
  try {
    let position = fstatSync(descriptor).size;
    let rest = "";
    while (!isOver()) {
      const bytes = Buffer.alloc(64 * 1024);
      const count = readSync(descriptor, bytes, 0, bytes.length, position);
      position += count;
      const lines = (rest + bytes.toString("utf8", 0, count)).split("\n");
      rest = lines.pop() ?? "";
      if (lines.some((each) => line.test(each))) return true;
      await sleep(POLL_MS);
    }
    return false;
  } finally {
    closeSync(descriptor);
  }
}

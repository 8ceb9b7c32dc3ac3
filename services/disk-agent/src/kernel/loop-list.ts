import { readFile, writeFile } from "node:fs/promises";
import { removeFile } from "../base/remove-file.js";
import { isStranded, makingOf } from "./loop.js";

/**
 * Adds a block device to the list of those that were made of an image. The kernel keeps no name of a device whose mount
 * has ended, so only this list tells whose it was.
 */
export async function noteLoop(list: string, device: string): Promise<void> {
  const line = `${device} ${await makingOf(device)}`;
  const lines = await read(list);
  if (!lines.includes(line)) await writeFile(list, `${[...lines, line].join("\n")}\n`, { mode: 0o600 });
}

/** Returns the block devices of the list that exist only because somebody uses them: their mount has ended. */
export async function strandedLoops(list: string): Promise<string[]> {
  const found = await Promise.all(
    (await read(list)).map(async (line) => {
      const [device = "", making = ""] = line.split(" ");
      return (await makingOf(device)) === making && (await isStranded(device)) ? [device] : [];
    }),
  );
  return found.flat();
}

/** Removes the list unless a device of it is stranded. */
export async function forgetLoops(list: string): Promise<void> {
  if ((await strandedLoops(list)).length === 0) await removeFile(list);
}

async function read(list: string): Promise<string[]> {
  const text = await readFile(list, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return "";
    throw error;
  });
  // A crash may have cut a line.
  return text.split("\n").filter((line) => /^\/dev\/loop\d+ \d*$/.test(line));
}

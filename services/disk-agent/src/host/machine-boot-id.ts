import { readFile } from "node:fs/promises";

let known: string | undefined;

/** Returns the id that the kernel has chosen at the start of this machine. */
export async function machineBootId(): Promise<string> {
  known ??= (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
  return known;
}

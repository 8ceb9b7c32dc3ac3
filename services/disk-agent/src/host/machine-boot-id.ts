import { readFile } from "node:fs/promises";

/** Returns the id that the kernel has chosen at the start of this machine. */
export async function machineBootId(): Promise<string> {
  return (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
}

import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { powerOff, powerOn } from "./vm-process.js";

/** Makes the program an executable file, which needs no node on PATH: a CPI is started with few folders there. */
export function installCpi(execPath: string, program = fileURLToPath(new URL("./main.js", import.meta.url))): void {
  mkdirSync(dirname(execPath), { recursive: true });
  writeFileSync(execPath, `#!/bin/sh\nexec "${process.execPath}" "${program}"\n`, { mode: 0o755 });
}

/** Starts the VMs that do not run, as a machine does that has its power back. */
export async function powerOnAll(stateFolder: string): Promise<void> {
  for (const folder of vmFolders(stateFolder)) await powerOn(folder);
}

/** Ends the VMs that run; they are there still. */
export async function powerOffAll(stateFolder: string): Promise<void> {
  for (const folder of vmFolders(stateFolder)) await powerOff(folder);
}

function vmFolders(stateFolder: string): string[] {
  const parent = join(stateFolder, "vm-folders");
  try {
    return readdirSync(parent).map((name) => join(parent, name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { powerOff, powerOn } from "./vm-process.js";

/** Installs the program as an executable that contains the path of node, because CPIs are started with a short PATH. */
export function installCpi(execPath: string, program = fileURLToPath(new URL("./main.js", import.meta.url))): void {
  mkdirSync(dirname(execPath), { recursive: true });
  writeFileSync(execPath, `#!/bin/sh\nexec "${process.execPath}" "${program}"\n`, { mode: 0o755 });
}

/** Starts the VMs that are off, as when their machine gets power again. */
export async function powerOnAll(stateFolder: string): Promise<void> {
  for (const folder of vmFolders(stateFolder)) await powerOn(folder);
}

/** Ends the processes of all VMs. The VMs still exist. */
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

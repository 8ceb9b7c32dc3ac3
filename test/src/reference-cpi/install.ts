import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Misbehaviour } from "./protocol.js";

/** The reference CPI installed somewhere, as an executable file, with a state folder of its own. */
export class ReferenceCpi {
  readonly execPath: string;
  readonly stateFolder: string;

  constructor(folder: string) {
    this.execPath = join(folder, "bin", "cpi");
    this.stateFolder = join(folder, "state");
    mkdirSync(dirname(this.execPath), { recursive: true });
    mkdirSync(this.stateFolder, { recursive: true });
    const program = fileURLToPath(new URL("./main.js", import.meta.url));
    // A CPI is started with a PATH on which node need not be.
    writeFileSync(this.execPath, `#!/bin/sh\nexec "${process.execPath}" "${program}"\n`);
    chmodSync(this.execPath, 0o755);
  }

  /** Tells it what to do wrong from now on, by method or "*". */
  misbehave(what: Misbehaviour): void {
    writeFileSync(join(this.stateFolder, "misbehave.json"), JSON.stringify(what));
  }

  /** What the agent of a VM was asked, in order. */
  askedOf(vmCid: string): unknown[][] {
    const file = join(this.stateFolder, "vm-folders", vmCid, "asked.jsonl");
    return readFileSync(file, "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  }

  /** Ends the VMs that are still there. */
  stopVms(): void {
    const folder = join(this.stateFolder, "vms");
    if (!existsSync(folder)) return;
    for (const name of readdirSync(folder).filter((one) => one.endsWith(".json"))) {
      const { pid } = JSON.parse(readFileSync(join(folder, name), "utf8")) as { pid: number };
      try {
        process.kill(-pid, "SIGKILL");
      } catch {
        // It has ended.
      }
    }
  }
}

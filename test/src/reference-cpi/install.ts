import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { installCpi, pidOf, powerOffAll, writeWhole } from "@diskmesh/process-cpi";
import type { Misbehaviour } from "./misbehaviour.js";

/** The reference CPI, installed as an executable file with its own state folder. */
export class ReferenceCpi {
  readonly execPath: string;
  readonly stateFolder: string;

  constructor(folder: string) {
    this.execPath = join(folder, "bin", "cpi");
    this.stateFolder = join(folder, "state");
    mkdirSync(this.stateFolder, { recursive: true });
    this.install();
  }

  install(): void {
    installCpi(this.execPath, fileURLToPath(new URL("./main.js", import.meta.url)));
  }

  /** Deletes the executable, and keeps the state. */
  uninstall(): void {
    rmSync(this.execPath);
  }

  /** Makes the CPI misbehave from now on, by method or "*". */
  misbehave(what: Misbehaviour): void {
    // Replaces the file atomically, because CPI processes may read it at any time.
    writeWhole(join(this.stateFolder, "misbehave.json"), what);
  }

  /** Returns the calls that a VM's agent received, in order. */
  askedOf(vmCid: string): unknown[][] {
    return readFileSync(join(this.vmFolder(vmCid), "asked.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  }

  /** Returns the folder that stands for a VM's system disk. */
  vmFolder(vmCid: string): string {
    return join(this.stateFolder, "vm-folders", vmCid);
  }

  /** Returns the process id of a VM; undefined when the VM's process has ended. */
  pidOf(vmCid: string): number | undefined {
    return pidOf(this.vmFolder(vmCid));
  }

  /** Returns the file that stands for a disk. */
  imageFile(diskCid: string): string {
    return join(this.stateFolder, "disks", `${diskCid}.img`);
  }

  /** Returns all VMs, disks and stemcells of the CPI, by kind and CID. */
  things(): string[] {
    const kinds = ["vms", "vm-folders", "disks", "attachments", "stemcells"];
    return kinds.flatMap((kind) => readdirSync(join(this.stateFolder, kind)).map((name) => `${kind}/${name}`));
  }

  /** Ends the remaining VMs. */
  stopVms(): Promise<void> {
    return powerOffAll(this.stateFolder);
  }
}

import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { installCpi, pidOf, powerOffAll, writeWhole } from "@diskmesh/process-cpi";
import type { Misbehaviour } from "./misbehaviour.js";

/** The reference CPI installed somewhere, as an executable file, with a state folder of its own. */
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

  /** Leaves the state alone. */
  uninstall(): void {
    rmSync(this.execPath);
  }

  /** Tells it what to do wrong from now on, by method or "*". */
  misbehave(what: Misbehaviour): void {
    // In one step: its processes may look at any moment.
    writeWhole(join(this.stateFolder, "misbehave.json"), what);
  }

  /** Returns the calls that a VM's agent got, in order. */
  askedOf(vmCid: string): unknown[][] {
    return readFileSync(join(this.vmFolder(vmCid), "asked.jsonl"), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
  }

  /** Returns the folder that stands for a VM's own system disk. */
  vmFolder(vmCid: string): string {
    return join(this.stateFolder, "vm-folders", vmCid);
  }

  /** The process that is a VM; undefined when it has ended. */
  pidOf(vmCid: string): number | undefined {
    return pidOf(this.vmFolder(vmCid));
  }

  /** The file that is a disk. */
  imageFile(diskCid: string): string {
    return join(this.stateFolder, "disks", `${diskCid}.img`);
  }

  /** All VMs, disks and stemcells that it has, by kind and cid. */
  things(): string[] {
    const kinds = ["vms", "vm-folders", "disks", "attachments", "stemcells"];
    return kinds.flatMap((kind) => readdirSync(join(this.stateFolder, kind)).map((name) => `${kind}/${name}`));
  }

  /** Ends the VMs that are still there. */
  stopVms(): Promise<void> {
    return powerOffAll(this.stateFolder);
  }
}

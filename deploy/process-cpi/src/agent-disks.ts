import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { parseId } from "@diskmesh/domain";
import { writeWhole } from "./state.js";

interface Disks {
  /** Hint of each persistent disk, by CID. */
  readonly persistent: Readonly<Record<string, unknown>>;
  readonly mounted: readonly string[];
}

export interface AgentDisksOptions {
  readonly hintInSettings: (diskCid: string) => Promise<unknown>;
  readonly describeHint: (hint: unknown) => string;
}

/**
 * Disks of a VM as its agent knows them. Persistent disks are entries in a file, dynamic disks are links in a folder.
 */
export class AgentDisks {
  readonly #file: string;
  readonly #links: string;

  constructor(
    folder: string,
    private readonly options: AgentDisksOptions,
  ) {
    this.#file = join(folder, "agent-disks.json");
    this.#links = join(folder, "dynamic_disks");
  }

  get mounted(): readonly string[] {
    return this.#read().mounted;
  }

  addPersistent(cid: string, hint: unknown): void {
    this.#change((disks) => ({ ...disks, persistent: { ...disks.persistent, [cid]: hint } }));
  }

  removePersistent(cid: string): void {
    this.#change((disks) => {
      const { [cid]: _, ...persistent } = disks.persistent;
      return { ...disks, persistent };
    });
  }

  async mount(cid: string): Promise<void> {
    this.#diskAt(cid, this.#read().persistent[cid] ?? (await this.options.hintInSettings(cid)));
    this.#change((disks) => ({ ...disks, mounted: [...new Set([...disks.mounted, cid])] }));
  }

  unmount(cid: string): void {
    this.#change((disks) => ({ ...disks, mounted: disks.mounted.filter((one) => one !== cid) }));
  }

  /** Creates the link by which the VM's programs find a dynamic disk. */
  link(cid: string, hint: unknown): void {
    const path = this.#diskAt(cid, hint);
    this.unlink(cid);
    symlinkSync(path, this.#linkOf(cid));
  }

  unlink(cid: string): void {
    mkdirSync(this.#links, { recursive: true });
    rmSync(this.#linkOf(cid), { force: true });
  }

  /** Removes all links, as a reboot does. */
  forgetLinks(): void {
    mkdirSync(this.#links, { recursive: true });
    for (const name of readdirSync(this.#links)) rmSync(join(this.#links, name), { force: true });
  }

  #linkOf(cid: string): string {
    return join(this.#links, parseId("disk_cid", cid));
  }

  #diskAt(cid: string, hint: unknown): string {
    const path = typeof hint === "string" ? hint : (hint as { path?: string } | undefined)?.path;
    if (path !== undefined && existsSync(path)) return path;
    throw new Error(`disk ${cid} is nowhere to be found: ${this.options.describeHint(hint)}`);
  }

  #read(): Disks {
    return existsSync(this.#file) ? JSON.parse(readFileSync(this.#file, "utf8")) : { persistent: {}, mounted: [] };
  }

  #change(make: (disks: Disks) => Disks): void {
    writeWhole(this.#file, make(this.#read()));
  }
}

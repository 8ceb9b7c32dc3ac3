import { constants } from "node:fs";
import type { CacheFileSystem } from "@diskmesh/disk-agent/simulation";
import type { MachineWorld } from "./drive.js";
import type { SimProcess } from "./seed/timeline.js";

interface Inode {
  readonly ino: number;
  text: string;
  /** Synced content; undefined when nothing was synced. */
  synced: string | undefined;
}

const SECTOR_BYTES = 512;

/** File system of the cache. Unsynced content may be lost when the machine crashes, and only then. */
export class CacheDisk {
  #names = new Map<string, Inode>();
  #syncedNames = new Map<string, Inode>();
  #inodes = 0;

  constructor(private readonly world: MachineWorld) {}

  files(process: SimProcess): CacheFileSystem {
    const open = async (path: string, flags: "r" | "w" | number) =>
      typeof flags === "number" ? this.#openThere(process, path, flags) : this.#open(process, path, flags);
    return {
      open: open as CacheFileSystem["open"],
      readFile: async (path) => {
        await this.#later(process);
        return this.#find(path).text;
      },
      rename: async (from, to) => {
        const inode = this.#find(from);
        this.#names.delete(from);
        this.#names.set(to, inode);
      },
      stat: async (path) => ({ dev: 1, ino: this.#find(path).ino }),
    };
  }

  #find(path: string): Inode {
    const inode = this.#names.get(path);
    if (inode === undefined) throw Object.assign(new Error(`ENOENT: ${path}`), { code: "ENOENT" });
    return inode;
  }

  #newInode(text: string, synced: string | undefined): Inode {
    this.#inodes += 1;
    return { ino: this.#inodes, text, synced };
  }

  /** Deletes or truncates a file, or deletes all files like a reinstallation. */
  spoil(path: string): void {
    const { random } = this.world;
    const inode = this.#names.get(path);
    if (random.chance(0.25)) this.#names.clear();
    else if (random.chance(0.5)) this.#names.delete(path);
    else if (inode)
      this.#names.set(path, this.#newInode(inode.text.slice(0, random.below(inode.text.length)), undefined));
    this.#syncedNames = new Map(this.#names);
  }

  has(path: string): boolean {
    return this.#names.has(path);
  }

  crash(powerLoss: boolean): void {
    if (!powerLoss) return;
    const { random } = this.world;
    const paths = [...new Set([...this.#names.keys(), ...this.#syncedNames.keys()])].sort();
    const left = new Map<string, Inode>();
    for (const path of paths) {
      // A directory entry that was not synced may or may not have reached the disk.
      const inode = (random.chance(0.5) ? this.#names : this.#syncedNames).get(path);
      if (inode === undefined) continue;
      const text = this.#left(inode);
      left.set(path, this.#newInode(text, text));
    }
    this.#names = left;
    this.#syncedNames = new Map(left);
  }

  /**
   * Returns the content after a power failure: each sector of an unsynced overwrite either reached the disk or did not.
   */
  #left({ synced, text }: Inode): string {
    const { random } = this.world;
    if (synced === undefined) return text.slice(0, random.below(text.length));
    if (synced === text) return text;
    let left = "";
    for (let at = 0; at < text.length; at += SECTOR_BYTES)
      left += (random.chance(0.5) ? synced : text).slice(at, at + SECTOR_BYTES);
    return left;
  }

  #fail(): void {
    const { random, faults } = this.world;
    if (random.chance(faults.failedCacheWrite)) throw new Error("ENOSPC: no space left on device");
  }

  /** Opens a file for writes in place. */
  #openThere(process: SimProcess, path: string, flags: number) {
    const inode = this.#find(path);
    return {
      write: async (text: string, position: number) => {
        this.#fail();
        inode.text = inode.text.slice(0, position) + text + inode.text.slice(position + text.length);
        await this.#later(process);
        if (flags & constants.O_DSYNC) {
          this.#fail();
          inode.synced = inode.text;
        }
        return { bytesWritten: text.length };
      },
      stat: async () => ({ dev: 1, ino: inode.ino }),
      close: async () => {},
    };
  }

  #open(process: SimProcess, path: string, flags: "r" | "w") {
    const fail = (): void => this.#fail();
    if (flags === "r") {
      const sync = async (): Promise<void> => {
        const names = new Map(this.#names);
        await this.#later(process);
        this.#syncedNames = names;
      };
      return { writeFile: () => Promise.reject(new Error("EISDIR")), sync, close: async () => {} };
    }
    const inode = this.#newInode("", undefined);
    this.#names.set(path, inode);
    return {
      writeFile: async (text: string) => {
        fail();
        inode.text = text;
      },
      sync: async () => {
        await this.#later(process);
        fail();
        inode.synced = inode.text;
      },
      close: async () => {},
    };
  }

  #later(process: SimProcess): Promise<void> {
    const { timeline, random, faults } = this.world;
    return new Promise((resolve) => {
      timeline.after(random.delayMs(faults.cacheMs, 3_000, faults.slowCacheWrite), process, "", resolve);
    });
  }
}

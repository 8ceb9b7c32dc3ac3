import { basename, dirname } from "node:path";
import type { Files, OpenFile } from "../files.js";

const SECTOR_BYTES = 512;

/** A file in memory: the content that programs see, and the content that is synced. */
interface Inode {
  readonly number: number;
  content: Buffer;
  durable: Buffer;
}

/** State that survives the end of a process. */
interface Disk {
  readonly names: Map<string, Inode>;
  readonly durableNames: Map<string, Inode>;
  unsynced: { readonly folder: string; readonly change: FolderChange }[];
  inodes: number;
}

/** Change of a folder that becomes durable with a sync of the folder. */
type FolderChange = (names: Map<string, Inode>) => void;

/**
 * A file system in memory that can lose power. Synced data survives. An unsynced append survives up to a random length,
 * and each of its sectors may be unwritten, which reads as zeros. The unsynced changes of folders before a random one
 * survive.
 */
export class PowerCutFiles implements Files {
  /** Number of calls until the power fails. Later calls never settle. */
  callsLeft = Number.POSITIVE_INFINITY;
  /** Capacity; an append beyond it writes the part that fits and fails with ENOSPC. */
  capacityBytes = Number.POSITIVE_INFINITY;
  /** Makes the next sync fail with EIO. */
  failNextSync = false;
  /** Number of the next folder syncs that fail with EIO. */
  folderSyncsToFail = 0;
  readonly #disk: Disk;

  constructor(disk: Disk = { names: new Map(), durableNames: new Map(), unsynced: [], inodes: 0 }) {
    this.#disk = disk;
  }

  /** Returns a copy in which the file at `path` has this content. */
  changed(path: string, content: Buffer): PowerCutFiles {
    const names = new Map(this.#disk.names);
    for (const [name, { number, content: before }] of names) {
      const own = name === path ? content : before;
      names.set(name, { number, content: own, durable: own });
    }
    return new PowerCutFiles({ names, durableNames: new Map(names), unsynced: [], inodes: this.#disk.inodes });
  }

  /** Returns the file system after the process was killed without a power cut. */
  afterKill(): PowerCutFiles {
    return new PowerCutFiles(this.#disk);
  }

  /** Returns the file system after a power cut. */
  afterCut(random: () => number): PowerCutFiles {
    const { durableNames, unsynced, inodes } = this.#disk;
    const names = new Map(durableNames);
    const survive = Math.floor(random() * (unsynced.length + 1));
    for (const { change } of unsynced.slice(0, survive)) change(names);
    const after = new Map<string, Inode>();
    for (const [path, { number, content, durable }] of names) {
      const survived = survivingContent(content, durable, random);
      after.set(path, { number, content: survived, durable: survived });
    }
    return new PowerCutFiles({ names: after, durableNames: new Map(after), unsynced: [], inodes });
  }

  contents(): Map<string, Buffer> {
    return new Map(Array.from(this.#disk.names, ([path, { content }]) => [basename(path), content]));
  }

  async open(path: string, flags: "r" | "a" | "ax" | "w"): Promise<OpenFile> {
    await this.#call();
    let inode = this.#disk.names.get(path);
    if (inode !== undefined && flags === "ax") throw errnoError("EEXIST", path);
    if (inode === undefined && flags === "r") throw errnoError("ENOENT", path);
    if (inode === undefined) {
      const made = { number: this.#disk.inodes++, content: Buffer.alloc(0), durable: Buffer.alloc(0) };
      this.#change(path, (names) => names.set(path, made));
      inode = made;
    }
    if (flags === "w") inode.content = Buffer.alloc(0);
    return this.#opened(inode);
  }

  list(folder: string): string[] {
    return [...this.#disk.names.keys()].filter((path) => dirname(path) === folder).map((path) => basename(path));
  }

  async makeFolder(): Promise<void> {
    await this.#call();
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#call();
    this.#change(to, (names) => {
      const inode = names.get(from);
      if (inode === undefined) return;
      names.set(to, inode);
      names.delete(from);
    });
  }

  async remove(path: string): Promise<void> {
    await this.#call();
    this.#change(path, (names) => names.delete(path));
  }

  async syncFolder(folder: string): Promise<void> {
    await this.#call();
    if (this.folderSyncsToFail-- > 0) throw errnoError("EIO", folder);
    for (const { change } of this.#disk.unsynced.filter((each) => each.folder === folder))
      change(this.#disk.durableNames);
    this.#disk.unsynced = this.#disk.unsynced.filter((each) => each.folder !== folder);
  }

  async freeBytes(): Promise<number> {
    let used = 0;
    for (const { content } of this.#disk.names.values()) used += content.length;
    return Math.max(0, this.capacityBytes - used);
  }

  #opened(inode: Inode): OpenFile {
    const call = () => this.#call();
    return {
      stat: async () => {
        await call();
        return { size: inode.content.length, ino: inode.number };
      },
      read: async (buffer, offset, length, position) => {
        await call();
        return { bytesRead: inode.content.copy(buffer, offset, position, position + length) };
      },
      appendFile: async (bytes) => {
        await call();
        const fitting = bytes.subarray(0, await this.freeBytes());
        inode.content = Buffer.concat([inode.content, fitting]);
        if (fitting.length < bytes.length) throw errnoError("ENOSPC", "a file");
      },
      truncate: async (sizeBytes) => {
        await call();
        inode.content = inode.content.subarray(0, sizeBytes);
      },
      datasync: async () => {
        await call();
        if (this.failNextSync) {
          this.failNextSync = false;
          throw errnoError("EIO", "a file");
        }
        inode.durable = inode.content;
      },
      close: async () => {},
    };
  }

  #change(path: string, change: FolderChange): void {
    change(this.#disk.names);
    this.#disk.unsynced.push({ folder: dirname(path), change });
  }

  /** Yields to the event loop, like a call that waits for a disk. */
  async #call(): Promise<void> {
    if (this.callsLeft-- <= 0) throw new PowerFailure();
    await Promise.resolve();
  }
}

class PowerFailure extends Error {
  override readonly name = "PowerFailure";
}

function errnoError(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}

/** Returns the content that survives. An unsynced truncation survives completely or not at all. */
function survivingContent(content: Buffer, durable: Buffer, random: () => number): Buffer {
  const isAppended = content.length >= durable.length && content.subarray(0, durable.length).equals(durable);
  if (!isAppended) return random() < 0.5 ? durable : content;
  const addedBytes = content.length - durable.length;
  const keptBytes = random() < 0.5 ? addedBytes : Math.floor(random() * addedBytes);
  const survived = Buffer.from(content.subarray(0, durable.length + keptBytes));
  const chanceOfLoss = random();
  for (let at = durable.length; at < survived.length; at = nextSector(at))
    if (random() < chanceOfLoss) survived.fill(0, at, Math.min(nextSector(at), survived.length));
  return survived;
}

function nextSector(at: number): number {
  return (Math.floor(at / SECTOR_BYTES) + 1) * SECTOR_BYTES;
}

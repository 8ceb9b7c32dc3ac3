import { basename, dirname, join } from "node:path";
import type { Files, OpenFile } from "../files.js";

const SECTOR_BYTES = 512;

/** A file in memory: the content that programs see, and the content that is synced. */
interface Inode {
  readonly number: number;
  content: Buffer;
  durable: Buffer;
}

/** A folder in memory: the names that programs see, and those that are synced. */
interface Folder {
  names: Map<string, Entry>;
  durable: Map<string, Entry>;
}

type Entry = Inode | Folder;

/** State that survives the end of a process. */
interface Disk {
  readonly root: Folder;
  unsynced: FolderChange[];
  inodes: number;
}

/** Change of a folder that becomes durable with a sync of the folder. */
interface FolderChange {
  readonly folder: Folder;
  readonly apply: (names: Map<string, Entry>) => void;
}

/**
 * A file system in memory that can lose power. Synced data survives. An unsynced append survives up to a random length,
 * and each of its sectors may be unwritten, which reads as zeros. The unsynced changes of folders before a random one
 * survive, new folders among them. Renames and swaps are within one folder.
 */
export class PowerCutFiles implements Files {
  /** Number of calls until the power fails. Later calls never settle. */
  callsLeft = Number.POSITIVE_INFINITY;
  /** Number of calls until one call fails with `errorCode`. */
  callsUntilError = Number.POSITIVE_INFINITY;
  errorCode = "EIO";
  /** Capacity; an append beyond it writes the part that fits and fails with ENOSPC. */
  capacityBytes = Number.POSITIVE_INFINITY;
  /** Makes the next sync fail with EIO. */
  failNextSync = false;
  /** Number of the next folder syncs that fail with EIO. */
  folderSyncsToFail = 0;
  /** False makes `swap` fail with EINVAL. */
  canSwap = true;
  readonly #disk: Disk;

  constructor(disk: Disk = { root: newFolder(), unsynced: [], inodes: 0 }) {
    this.#disk = disk;
  }

  /** Returns a file system with a folder of these files. */
  static of(folder: string, contents: ReadonlyMap<string, Buffer>): PowerCutFiles {
    let inodes = 0;
    const file = (content: Buffer): Entry => ({ number: inodes++, content, durable: content });
    let root = folderOf(new Map(Array.from(contents, ([name, content]) => [name, file(content)])));
    for (const name of folder.split("/").slice(1).reverse()) root = folderOf(new Map([[name, root]]));
    return new PowerCutFiles({ root, unsynced: [], inodes });
  }

  /** Returns a copy in which the file at `path` has this content, and everything is synced. */
  changed(path: string, content: Buffer): PowerCutFiles {
    const synced = (each: Entry, at: string): Entry => {
      if (isFolder(each)) return folderOf(mapEntries(each.names, (entry, name) => synced(entry, join(at, name))));
      const own = at === path ? content : each.content;
      return { number: each.number, content: own, durable: own };
    };
    return new PowerCutFiles({ ...this.#disk, root: synced(this.#disk.root, "/") as Folder, unsynced: [] });
  }

  /** Returns the file system after the process was killed without a power cut. */
  afterKill(): PowerCutFiles {
    return new PowerCutFiles(this.#disk);
  }

  /** Returns the file system after a power cut. */
  afterCut(random: () => number): PowerCutFiles {
    const { root, unsynced, inodes } = this.#disk;
    const survive = Math.floor(random() * (unsynced.length + 1));
    const durable = new Map<Folder, Map<string, Entry>>();
    for (const { folder, apply } of unsynced.slice(0, survive)) {
      const names = durable.get(folder) ?? new Map(folder.durable);
      durable.set(folder, names);
      apply(names);
    }
    const survivor = (each: Entry): Entry => {
      if (isFolder(each)) return folderOf(mapEntries(durable.get(each) ?? each.durable, survivor));
      const survived = survivingContent(each.content, each.durable, random);
      return { number: each.number, content: survived, durable: survived };
    };
    return new PowerCutFiles({ root: survivor(root) as Folder, unsynced: [], inodes });
  }

  /** Returns the content of each file by its name, without its folder. */
  contents(): Map<string, Buffer> {
    const found = new Map<string, Buffer>();
    const collect = ({ names }: Folder): void => {
      for (const [name, entry] of names) {
        if (isFolder(entry)) collect(entry);
        else found.set(name, entry.content);
      }
    };
    collect(this.#disk.root);
    return found;
  }

  async open(path: string, flags: "r" | "a" | "ax" | "w"): Promise<OpenFile> {
    await this.#call();
    const folder = this.#folderAt(dirname(path));
    let inode = folder.names.get(basename(path));
    if (inode !== undefined && isFolder(inode)) throw errnoError("EISDIR", path);
    if (inode !== undefined && flags === "ax") throw errnoError("EEXIST", path);
    if (inode === undefined && flags === "r") throw errnoError("ENOENT", path);
    if (inode === undefined) {
      const made = { number: this.#disk.inodes++, content: Buffer.alloc(0), durable: Buffer.alloc(0) };
      this.#change(folder, (names) => names.set(basename(path), made));
      inode = made;
    }
    if (flags === "w") inode.content = Buffer.alloc(0);
    return this.#opened(inode);
  }

  list(folder: string): string[] {
    return [...this.#folderAt(folder).names.keys()];
  }

  async makeFolder(path: string): Promise<void> {
    await this.#call();
    const parent = this.#folderAt(dirname(path));
    if (path === "/" || parent.names.has(basename(path))) throw errnoError("EEXIST", path);
    const made = newFolder();
    this.#change(parent, (names) => names.set(basename(path), made));
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#call();
    const folder = this.#folderAt(dirname(to));
    const entry = folder.names.get(basename(from));
    if (entry === undefined) throw errnoError("ENOENT", from);
    this.#change(folder, (names) => {
      names.set(basename(to), entry);
      names.delete(basename(from));
    });
  }

  async swap(one: string, other: string): Promise<void> {
    await this.#call();
    if (!this.canSwap) throw errnoError("EINVAL", one);
    const folder = this.#folderAt(dirname(one));
    const [first, second] = [folder.names.get(basename(one)), folder.names.get(basename(other))];
    if (first === undefined || second === undefined) throw errnoError("ENOENT", one);
    this.#change(folder, (names) => names.set(basename(one), second).set(basename(other), first));
  }

  async removeFolder(path: string): Promise<void> {
    await this.#call();
    const removed = this.#folderAt(path);
    for (const name of [...removed.names.keys()]) this.#change(removed, (names) => names.delete(name));
    this.#change(this.#folderAt(dirname(path)), (names) => names.delete(basename(path)));
  }

  async remove(path: string): Promise<void> {
    await this.#call();
    this.#change(this.#folderAt(dirname(path)), (names) => names.delete(basename(path)));
  }

  async syncFolder(path: string): Promise<void> {
    await this.#call();
    if (this.folderSyncsToFail-- > 0) throw errnoError("EIO", path);
    const synced = this.#folderAt(path);
    for (const { folder, apply } of this.#disk.unsynced) if (folder === synced) apply(folder.durable);
    this.#disk.unsynced = this.#disk.unsynced.filter(({ folder }) => folder !== synced);
  }

  async freeBytes(): Promise<number> {
    return Math.max(0, this.capacityBytes - usedBytes(this.#disk.root));
  }

  #folderAt(path: string): Folder {
    let at: Entry | undefined = this.#disk.root;
    for (const name of path.split("/").filter((each) => each !== "")) {
      if (at === undefined || !isFolder(at)) break;
      at = at.names.get(name);
    }
    if (at === undefined) throw errnoError("ENOENT", path);
    if (isFolder(at)) return at;
    throw errnoError("ENOTDIR", path);
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

  #change(folder: Folder, apply: FolderChange["apply"]): void {
    apply(folder.names);
    this.#disk.unsynced.push({ folder, apply });
  }

  /** Yields to the event loop, like a call that waits for a disk. */
  async #call(): Promise<void> {
    if (this.callsLeft-- <= 0) throw new PowerFailure();
    await Promise.resolve();
    if (this.callsUntilError-- === 0) throw errnoError(this.errorCode, "a file");
  }
}

function newFolder(): Folder {
  return { names: new Map(), durable: new Map() };
}

/** Returns a folder whose names are all synced. */
function folderOf(names: Map<string, Entry>): Folder {
  return { names, durable: new Map(names) };
}

function isFolder(entry: Entry): entry is Folder {
  return "names" in entry;
}

function mapEntries(entries: Map<string, Entry>, map: (entry: Entry, name: string) => Entry): Map<string, Entry> {
  return new Map(Array.from(entries, ([name, entry]) => [name, map(entry, name)]));
}

function usedBytes(entry: Entry): number {
  if (!isFolder(entry)) return entry.content.length;
  let used = 0;
  for (const each of entry.names.values()) used += usedBytes(each);
  return used;
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

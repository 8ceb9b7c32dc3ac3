import { constants } from "node:fs";
import type { CacheFileSystem, FileFacts, FileOpener, OpenedFile, OpenHandle } from "@diskmesh/disk-agent/simulation";
import { DeviceIoError } from "@diskmesh/domain";
import type { Random } from "../random.js";
import { type BlockContents, type Drive, newDrive, requireUnlocked } from "./drive.js";
import type { Faults } from "./faults.js";
import type { SimProcess, Timeline } from "./timeline.js";

export const BLOCK_BYTES = 4_096;
/** Begins every block that a disk's user writes; what has none is zeros. */
const MARK = 0xd15c3e54;

export function blockOf(writeNumber: number): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  block.writeUInt32LE(MARK, 0);
  block.writeUInt32LE(writeNumber, 4);
  return block;
}

export function writeNumberOf(block: Uint8Array, at = 0): BlockContents {
  const view = Buffer.from(block.buffer, block.byteOffset + at, 8);
  return view.readUInt32LE(0) === MARK ? view.readUInt32LE(4) : 0;
}

/** A block that is about to reach a drive, or has reached it. */
export interface BlockWrite {
  readonly host: string;
  readonly path: string;
  readonly drive: Drive;
  readonly block: number;
  readonly contents: BlockContents;
  /** What the watch noted when it was submitted. */
  readonly note: unknown;
}

/** What the kernel sees of device files. */
export interface MachineWatch {
  submitted(host: string, path: string, block: number, contents: BlockContents): unknown;
  landed(write: BlockWrite): void;
  /** A process has opened it beside those who have it open already. */
  opened(process: SimProcess, drive: Drive): void;
}

interface Descriptor {
  readonly process: SimProcess;
  readonly path: string;
  readonly drive: Drive;
}

interface World {
  readonly timeline: Timeline;
  readonly random: Random;
  readonly faults: Faults;
}

/** The machine under one agent: its drives, its descriptors, and the file system that holds the cache. */
export class Machine {
  /** What is at each path now; undefined when nothing is. */
  readonly drives = new Map<string, Drive | undefined>();
  readonly #descriptors = new Set<Descriptor>();
  readonly #opening = new Set<{ readonly process: SimProcess; readonly path: string }>();
  readonly #inFlight = new Map<SimProcess, Set<() => void>>();
  readonly cache: CacheDisk;
  #driveCount = 0;
  bootId = 1;

  constructor(
    readonly host: string,
    private readonly world: World,
    private readonly watch: MachineWatch,
  ) {
    this.cache = new CacheDisk(world);
  }

  /** Puts a new, filled drive at a path. */
  plugIn(path: string, blockCount: number): void {
    this.drives.set(path, newDrive(`drive ${++this.#driveCount}`, blockCount));
  }

  /** Where drives can be swapped: not what another host sees as well. */
  ownPaths(): readonly string[] {
    return [...this.drives].filter(([, drive]) => drive?.sharedAs === undefined).map(([path]) => path);
  }

  /** Whether a process has the path open, or will have once an open under way succeeds. */
  isHeld(path: string): boolean {
    for (const descriptor of this.#descriptors) if (descriptor.path === path) return true;
    for (const opening of this.#opening) if (opening.path === path) return true;
    return false;
  }

  isOpen(path: string): boolean {
    return this.openDrive(path) !== undefined;
  }

  /** The drive that is open under a path, whatever is there now. */
  openDrive(path: string): Drive | undefined {
    for (const descriptor of this.#descriptors) if (descriptor.path === path) return descriptor.drive;
    return undefined;
  }

  opener(process: SimProcess): FileOpener {
    return {
      open: (path) => this.#open(process, path),
      look: async (path) => {
        const drive = await this.#later(process, this.world.faults.openMs, this.world.faults.slowOpen, () =>
          this.#find(path),
        );
        return this.#factsOf(drive);
      },
    };
  }

  /** The process is gone: the kernel closes its descriptors, and what it had submitted happens now or never. */
  crash(process: SimProcess, powerLoss: boolean): void {
    for (const land of this.#inFlight.get(process) ?? []) if (this.world.random.chance(0.5)) land();
    this.#inFlight.delete(process);
    for (const descriptor of this.#descriptors) if (descriptor.process === process) this.#close(descriptor);
    for (const opening of this.#opening) if (opening.process === process) this.#opening.delete(opening);
    this.cache.crash(powerLoss);
    if (powerLoss) this.bootId += 1;
  }

  async #open(process: SimProcess, path: string): Promise<OpenedFile> {
    const { random, faults } = this.world;
    const opening = { process, path };
    this.#opening.add(opening);
    const failed = random.chance(faults.failedOpen);
    try {
      return await this.#later(process, faults.openMs, faults.slowOpen, () => {
        if (failed) throw new DeviceIoError(`device file ${path} cannot be used: the drive does not answer`);
        const drive = this.#find(path);
        requireUnlocked(drive, process);
        const descriptor = { process, path, drive };
        this.#descriptors.add(descriptor);
        this.watch.opened(process, drive);
        drive.openBy.add(process);
        return {
          ...this.#factsOf(drive),
          handle: this.#handle(descriptor),
        };
      });
    } finally {
      this.#opening.delete(opening);
    }
  }

  #close(descriptor: Descriptor): void {
    this.#descriptors.delete(descriptor);
    descriptor.drive.openBy.delete(descriptor.process);
  }

  /** As a kernel does that knows few serial numbers: it tells drives apart until the machine boots again. */
  #factsOf({ name, blocks, sharedAs }: Drive): FileFacts {
    const boot = sharedAs === "file" ? "boot-of-both" : `${this.host}-boot-${this.bootId}`;
    const serialNumber = sharedAs === "drive" ? `serial of ${name}` : "";
    return { identity: `${boot} ${name}`, sizeBytes: blocks.length * BLOCK_BYTES, serialNumber };
  }

  #find(path: string): Drive {
    const drive = this.drives.get(path);
    if (drive === undefined) throw new DeviceIoError(`device file ${path} cannot be used: there is no such file`);
    return drive;
  }

  #handle(descriptor: Descriptor): OpenHandle {
    const { process, drive } = descriptor;
    const { faults } = this.world;
    const check = (): void => {
      if (!this.#descriptors.has(descriptor))
        throw Object.assign(new Error("EBADF: bad file descriptor"), { code: "EBADF" });
    };
    const read = async (buffer: Uint8Array, offset: number, length: number, position: number) => {
      check();
      await this.#later(process, faults.ioMs, faults.slowIo, () => {
        for (let done = 0; done < length; done += BLOCK_BYTES) {
          const contents = drive.blocks[(position + done) / BLOCK_BYTES];
          if (contents === undefined) throw new Error("the file ends here");
          buffer.set(contents === 0 ? Buffer.alloc(BLOCK_BYTES) : blockOf(contents), offset + done);
        }
      });
      return { bytesRead: length, buffer };
    };
    const write = async (buffer: Uint8Array, offset: number, length: number, position: number) => {
      check();
      await this.#write(descriptor, buffer.subarray(offset, offset + length), position);
      return { bytesWritten: length, buffer };
    };
    return {
      read: read as OpenHandle["read"],
      write: write as OpenHandle["write"],
      datasync: async () => {
        check();
        await this.#later(process, faults.ioMs, faults.slowIo, () => {
          if (this.world.random.chance(faults.failedIo)) throw ioError();
        });
      },
      close: async () => {
        check();
        await this.#later(process, 1, 0, () => this.#close(descriptor));
      },
    };
  }

  async #write({ process, path, drive }: Descriptor, data: Uint8Array, position: number): Promise<void> {
    const { faults, random } = this.world;
    const writes: BlockWrite[] = [];
    for (let done = 0; done < data.length; done += BLOCK_BYTES) {
      const block = (position + done) / BLOCK_BYTES;
      const contents = writeNumberOf(data, done);
      const note = this.watch.submitted(this.host, path, block, contents);
      writes.push({ host: this.host, path, drive, block, contents, note });
    }
    const land = (): void => {
      for (const write of writes) {
        if (write.block >= drive.blocks.length) throw new Error("ENOSPC: no space left on device");
        drive.blocks[write.block] = write.contents;
        this.watch.landed(write);
      }
    };
    const inFlight = this.#inFlight.get(process) ?? new Set();
    this.#inFlight.set(process, inFlight);
    inFlight.add(land);
    await this.#later(process, faults.ioMs, faults.slowIo, () => {
      inFlight.delete(land);
      const fails = random.chance(faults.failedIo);
      // One that fails may have written all the same.
      if (!fails || random.chance(0.5)) land();
      if (fails) throw ioError();
    });
  }

  /** What the kernel does after a while, whatever the process does meanwhile. */
  #later<T>(process: SimProcess, typicalMs: number, slow: number, action: () => T): Promise<T> {
    const { timeline, random } = this.world;
    return new Promise((resolve, reject) => {
      timeline.after(random.delayMs(typicalMs, 6_000, slow), undefined, "", () => {
        // What a dead process had asked for was settled when it died.
        if (!process.alive) return;
        try {
          const result = action();
          timeline.after(0, process, "", () => resolve(result));
        } catch (error) {
          timeline.after(0, process, "", () => reject(error));
        }
      });
    });
  }
}

function ioError(): Error {
  return Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
}

interface Inode {
  readonly ino: number;
  text: string;
  /** What is on the disk; undefined when nothing of it is. */
  synced: string | undefined;
}

const SECTOR_BYTES = 512;

/** The file system that holds the cache: what was not synced may be lost with the machine, and only then. */
class CacheDisk {
  #names = new Map<string, Inode>();
  #syncedNames = new Map<string, Inode>();
  #inodes = 0;

  constructor(private readonly world: World) {}

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

  /** One file is gone, or torn; or all are gone: a repaired or a reinstalled machine. */
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
      // An entry of a directory that was not synced may have reached the disk all the same.
      const inode = (random.chance(0.5) ? this.#names : this.#syncedNames).get(path);
      if (inode === undefined) continue;
      const text = this.#left(inode);
      left.set(path, this.#newInode(text, text));
    }
    this.#names = left;
    this.#syncedNames = new Map(left);
  }

  /** Of what was written in its place and not synced, each sector is on the disk or not. */
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

  /** To be written in its place. */
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

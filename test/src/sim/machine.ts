import type { FileFacts, FileOpener, OpenedFile, OpenHandle } from "@diskmesh/disk-agent/simulation";
import { DeviceIoError } from "@diskmesh/domain";
import { CacheDisk } from "./cache-disk.js";
import { type BlockContents, type Drive, identityOf, type MachineWorld, newDrive, requireUnlocked } from "./drive.js";
import type { SimProcess } from "./seed/timeline.js";

/** A label and a record take one block, a slice of 1 MiB 16 blocks. */
export const BLOCK_BYTES = 65_536;
/** First bytes of every block that a disk's user writes. Blocks without it are zeros. */
const MARK = 0xd15c3e54;
/** First bytes of what is in label areas and records: labels, tables of runs, records. */
const LABEL_MARK = Buffer.from("diskmesh-");

export function blockOf(writeNumber: number): Buffer {
  const block = Buffer.alloc(BLOCK_BYTES);
  block.writeUInt32LE(MARK, 0);
  block.writeUInt32LE(writeNumber, 4);
  return block;
}

/** Returns the indexes of the blocks in a range of a device; size 0 means up to the device's end. */
export function* blocksOf(offsetBytes: number, sizeBytes: number, blockCount: number): Generator<number> {
  const end = sizeBytes === 0 ? blockCount : Math.min(blockCount, (offsetBytes + sizeBytes) / BLOCK_BYTES);
  for (let block = offsetBytes / BLOCK_BYTES; block < end; block++) yield block;
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
  /** Value that the watch returned at the submission. */
  readonly note: unknown;
}

/** Observes the calls of a machine's kernel on device files. */
export interface MachineWatch {
  submitted(host: string, path: string, block: number, contents: BlockContents): unknown;
  landed(write: BlockWrite, before: BlockContents): void;
  /** Called when a write extends a file that its agent has found to be truncated. */
  beyondEnd(path: string, drive: Drive): void;
  /** Called when a process opens the drive; other processes may have it open already. */
  opened(process: SimProcess, drive: Drive): void;
}

interface Descriptor {
  readonly process: SimProcess;
  readonly path: string;
  readonly drive: Drive;
}

/** The machine of one agent: its drives, descriptors, and the file system of the cache. */
export class Machine {
  /** Present drive at each path; undefined for none. */
  readonly drives = new Map<string, Drive | undefined>();
  readonly #descriptors = new Set<Descriptor>();
  /** Time of the last close, by path. */
  readonly #closedAtMs = new Map<string, number>();
  readonly #opening = new Set<{ readonly process: SimProcess; readonly path: string }>();
  readonly #inFlight = new Map<SimProcess, Set<() => void>>();
  readonly cache: CacheDisk;
  /** Last drive at each path since the boot, and number of drives seen there before. */
  readonly #slots = new Map<string, { readonly drive: Drive; readonly count: number }>();
  #driveCount = 0;
  bootId = 1;
  #isTouched = false;

  constructor(
    readonly host: string,
    private readonly world: MachineWorld,
    private readonly watch: MachineWatch,
  ) {
    this.cache = new CacheDisk(world);
  }

  /** True when somebody has changed the machine's drives, or their places. */
  get isTouched(): boolean {
    return this.#isTouched;
  }

  noteTouched(): void {
    this.#isTouched = true;
  }

  /** Puts a new, filled drive at a path. */
  plugIn(path: string, blockCount: number): void {
    if (this.drives.has(path)) this.noteTouched();
    const isFile = !this.world.random.chance(this.world.scenario?.unmarkedDrives ?? 0);
    this.drives.set(path, newDrive(`drive ${this.host} ${++this.#driveCount}`, blockCount, { isFile }));
  }

  /** Swaps the drives of two paths. */
  exchange(a: string, b: string): void {
    this.noteTouched();
    const [atA, atB] = [this.drives.get(a), this.drives.get(b)];
    this.drives.set(a, atB).set(b, atA);
  }

  /** Swaps the drives that two machines have at a path. No process may have them open. */
  exchangeWith(other: Machine, path: string): void {
    for (const machine of [this, other]) machine.noteTouched();
    const [own, others] = [this.drives.get(path), other.drives.get(path)];
    this.drives.set(path, others);
    other.drives.set(path, own);
  }

  /** Truncates a file to its first block, even while it is open. */
  cutOff(path: string): void {
    this.noteTouched();
    const drive = this.drives.get(path);
    if (drive?.isFile) drive.blocks.length = Math.min(drive.blocks.length, 1);
  }

  /** Returns the paths where drives may be swapped: those that no other host sees. */
  ownPaths(): readonly string[] {
    return [...this.drives].filter(([, drive]) => drive?.sharedAs === undefined).map(([path]) => path);
  }

  /** Returns whether a process has the path open, or will have when an open in progress succeeds. */
  isHeld(path: string): boolean {
    for (const descriptor of this.#descriptors) if (descriptor.path === path) return true;
    for (const opening of this.#opening) if (opening.path === path) return true;
    return false;
  }

  /** Returns whether the path is open, or was at any time since then. */
  wasOpenSince(path: string, sinceMs: number): boolean {
    return this.isOpen(path) || (this.#closedAtMs.get(path) ?? -1) >= sinceMs;
  }

  isOpen(path: string): boolean {
    return this.openDrive(path) !== undefined;
  }

  /** Returns the open drive of a path; the path may have another drive now. */
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
        drive.seenBlocks = drive.blocks.length;
        return this.#factsOf(path, drive);
      },
      peek: (path, offsetBytes, lengthBytes) =>
        this.#later(process, this.world.faults.ioMs, this.world.faults.slowIo, () => {
          const drive = this.#find(path);
          const bytes = Buffer.alloc(lengthBytes);
          return { ...this.#factsOf(path, drive), bytes: bytes.subarray(0, readFrom(drive, bytes, offsetBytes)) };
        }),
    };
  }

  /** Ends the process: the kernel closes its descriptors, and its submitted requests are executed now or never. */
  crash(process: SimProcess, powerLoss: boolean): void {
    for (const land of this.#inFlight.get(process) ?? []) if (this.world.random.chance(0.5)) land();
    this.#inFlight.delete(process);
    for (const descriptor of this.#descriptors) if (descriptor.process === process) this.#close(descriptor);
    for (const opening of this.#opening) if (opening.process === process) this.#opening.delete(opening);
    this.cache.crash(powerLoss);
    if (!powerLoss) return;
    this.bootId += 1;
    this.#slots.clear();
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
          ...this.#factsOf(path, drive),
          handle: this.#handle(descriptor),
        };
      });
    } finally {
      this.#opening.delete(opening);
    }
  }

  #close(descriptor: Descriptor): void {
    this.#descriptors.delete(descriptor);
    this.#closedAtMs.set(descriptor.path, this.world.timeline.nowMs);
    descriptor.drive.openBy.delete(descriptor.process);
  }

  /**
   * Returns the facts that a kernel with few serial numbers reports: it distinguishes drives until the next boot. A
   * serial number that QEMU derives from the slot belongs to any drive in it.
   */
  #factsOf(path: string, drive: Drive): FileFacts {
    const last = this.#slots.get(path);
    const count = last?.drive === drive ? last.count : (last?.count ?? 0) + 1;
    this.#slots.set(path, { drive, count });
    const serialNumber =
      drive.sharedAs === "drive" ? `serial of ${drive.name}` : drive.isFile ? "" : numberOfPlace(path);
    const identity = identityOf(drive, `${this.host}-boot-${this.bootId}`, `${path}:${count}`);
    return { identity, sizeBytes: drive.blocks.length * BLOCK_BYTES, serialNumber };
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
      const bytesRead = await this.#later(process, faults.ioMs, faults.slowIo, () => {
        return readFrom(drive, buffer.subarray(offset, offset + length), position);
      });
      return { bytesRead, buffer };
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
      // Behaves like a file system without holes, so a clear becomes a write of zeros.
      punchHole: async () => false,
      close: async () => {
        check();
        await this.#later(process, 1, 0, () => this.#close(descriptor));
      },
    };
  }

  async #write({ process, path, drive }: Descriptor, data: Uint8Array, position: number): Promise<void> {
    const { faults, random } = this.world;
    const writes: BlockWrite[] = [];
    const isLabel = LABEL_MARK.compare(data, 0, LABEL_MARK.length) === 0;
    for (let done = 0; done < data.length && !isLabel; done += BLOCK_BYTES) {
      const block = (position + done) / BLOCK_BYTES;
      const contents = writeNumberOf(data, done);
      const note = this.watch.submitted(this.host, path, block, contents);
      if (block >= drive.blocks.length && drive.seenBlocks === drive.blocks.length) this.watch.beyondEnd(path, drive);
      writes.push({ host: this.host, path, drive, block, contents, note });
    }
    const land = (): void => {
      if (isLabel) drive.labels.set(position, Buffer.from(data));
      for (const write of writes) {
        for (const at of drive.labels.keys()) if (Math.floor(at / BLOCK_BYTES) === write.block) drive.labels.delete(at);
        if (write.block >= drive.blocks.length && !drive.isFile) throw new Error("ENOSPC: no space left on device");
        while (drive.blocks.length < write.block) drive.blocks.push(0);
        const before = drive.blocks[write.block] ?? 0;
        drive.blocks[write.block] = write.contents;
        this.watch.landed(write, before);
      }
    };
    const inFlight = this.#inFlight.get(process) ?? new Set();
    this.#inFlight.set(process, inFlight);
    inFlight.add(land);
    await this.#later(process, faults.ioMs, faults.slowIo, () => {
      inFlight.delete(land);
      const fails = random.chance(faults.failedIo);
      // A failed write may have reached the drive nevertheless.
      if (!fails || random.chance(0.5)) land();
      if (fails) throw ioError();
    });
  }

  /** Runs an action of the kernel after a delay, even if the process has died meanwhile. */
  #later<T>(process: SimProcess, typicalMs: number, slow: number, action: () => T): Promise<T> {
    const { timeline, random } = this.world;
    return new Promise((resolve, reject) => {
      timeline.after(random.delayMs(typicalMs, 6_000, slow), undefined, "", () => {
        // Requests of a dead process were resolved at its death.
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

/** Reads whole blocks; returns the bytes that the drive has there. */
function readFrom(drive: Drive, buffer: Uint8Array, position: number): number {
  for (let done = 0; done < buffer.length; done += BLOCK_BYTES) {
    const contents = drive.blocks[(position + done) / BLOCK_BYTES];
    if (contents === undefined) return done;
    buffer.set(
      (contents === 0 ? Buffer.alloc(BLOCK_BYTES) : blockOf(contents)).subarray(0, buffer.length - done),
      done,
    );
    for (const [at, label] of drive.labels)
      if (at >= position + done && at < position + done + BLOCK_BYTES && at < position + buffer.length)
        buffer.set(label.subarray(0, position + buffer.length - at), at - position);
  }
  return buffer.length;
}

function numberOfPlace(path: string): string {
  return `QM${String(path.charCodeAt(path.length - 1)).padStart(5, "0")}`;
}

function ioError(): Error {
  return Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
}

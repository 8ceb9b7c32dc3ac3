import { type FileOpener, makeFileOpener, type OpenedFile, type OpenHandle } from "../files/open-file.js";

export const fileOpener = makeFileOpener({ requireLocks: true });

/** Blocks callers until a test releases them. */
class Gate {
  #open: (() => void) | undefined;
  #opened: Promise<void> | undefined;
  /** Number of calls so far, including those that passed while the gate was open. */
  arrivals = 0;

  shut(): void {
    this.#opened = new Promise((open) => {
      this.#open = open;
    });
  }

  open(): void {
    this.#open?.();
    this.#opened = undefined;
  }

  get isShut(): boolean {
    return this.#opened !== undefined;
  }

  async pass(): Promise<void> {
    this.arrivals += 1;
    await this.#opened;
  }
}

/** Opens real files through gates, at which a test can block opens, writes and syncs. */
export class SlowFiles implements FileOpener {
  readonly opens = new Gate();
  readonly writes = new Gate();

  /** True while a gate is shut. */
  get holdsUp(): boolean {
    return this.opens.isShut || this.writes.isShut;
  }

  /** Thrown by the next read. */
  failNextRead: Error | undefined;
  /** Offsets of answered reads. */
  readonly readPositions: number[] = [];
  hangingReads = 0;
  /** File whose writes hang until `unhang`. */
  hangingWritesOf: string | undefined;
  readonly #hanging = new Set<string>();
  readonly #hung = new Gate();
  readonly #hungWrites = new Gate();
  /** Thrown by the next sync. */
  failNextSync: Error | undefined;
  /** Number of open descriptors. */
  openCount = 0;
  mostOpenCount = 0;
  syncCount = 0;
  canPunchHoles = true;
  /** Maximum bytes that one system call transfers. */
  maxBytesPerCall = Number.POSITIVE_INFINITY;

  async open(path: string): Promise<OpenedFile> {
    await this.opens.pass();
    const opened = await fileOpener.open(path);
    this.openCount += 1;
    this.mostOpenCount = Math.max(this.mostOpenCount, this.openCount);
    return { ...opened, handle: this.#slow(path, opened.handle) };
  }

  look(path: string) {
    return fileOpener.look(path);
  }

  peek(...place: Parameters<FileOpener["peek"]>) {
    return fileOpener.peek(...place);
  }

  /** Makes reads of the file hang, like those of a stalled drive. */
  hang(path: string): void {
    if (this.#hanging.size === 0) this.#hung.shut();
    this.#hanging.add(path);
  }

  /** Makes writes of the file hang. */
  hangWrites(path: string): void {
    this.hangingWritesOf = path;
    this.#hungWrites.shut();
  }

  unhang(): void {
    this.#hanging.clear();
    this.hangingWritesOf = undefined;
    this.#hungWrites.open();
    this.#hung.open();
  }

  async #hangIfTold(path: string): Promise<void> {
    if (!this.#hanging.has(path)) return;
    this.hangingReads += 1;
    await this.#hung.pass();
    this.hangingReads -= 1;
  }

  #slow(path: string, handle: OpenHandle): OpenHandle {
    return {
      ...handle,
      read: async (buffer, offset, length, position) => {
        await this.#hangIfTold(path);
        const failure = this.failNextRead;
        this.failNextRead = undefined;
        if (failure) throw failure;
        this.readPositions.push(position);
        return handle.read(buffer, offset, Math.min(length, this.maxBytesPerCall), position);
      },
      write: async (buffer, offset, length, position) => {
        await this.writes.pass();
        if (this.hangingWritesOf === path) await this.#hungWrites.pass();
        return handle.write(buffer, offset, Math.min(length, this.maxBytesPerCall), position);
      },
      datasync: async () => {
        const failure = this.failNextSync;
        this.failNextSync = undefined;
        if (failure) throw failure;
        await handle.datasync();
        this.syncCount += 1;
      },
      punchHole: async (offsetBytes, lengthBytes) => {
        await this.writes.pass();
        return this.canPunchHoles && handle.punchHole(offsetBytes, lengthBytes);
      },
      writeBack: async (offsetBytes, bytes) => {
        await this.writes.pass();
        if (this.hangingWritesOf === path) await this.#hungWrites.pass();
        const failure = this.failNextSync;
        this.failNextSync = undefined;
        if (failure) throw failure;
        await handle.writeBack?.(offsetBytes, bytes);
      },
      close: async () => {
        await handle.close();
        this.openCount -= 1;
      },
    };
  }
}

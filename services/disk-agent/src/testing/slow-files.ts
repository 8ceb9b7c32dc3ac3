import { type FileOpener, fileOpener, type OpenedFile, type OpenHandle } from "../devices/open-file.js";

/** Something that waits until a test lets it go on. */
export class Gate {
  #open: (() => void) | undefined;
  #opened: Promise<void> | undefined;
  /** How many came to the gate, whether it was shut or not. */
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

  async pass(): Promise<void> {
    this.arrivals += 1;
    await this.#opened;
  }
}

/** The real files, behind gates at which a test can hold opens, writes and syncs up. */
export class SlowFiles implements FileOpener {
  readonly opens = new Gate();
  readonly writes = new Gate();
  /** Thrown by the next sync. */
  failNextSync: Error | undefined;
  /** Descriptors that are open now. */
  openCount = 0;
  syncCount = 0;
  /** The most bytes that one system call moves. */
  maxBytesPerCall = Number.POSITIVE_INFINITY;

  async open(path: string): Promise<OpenedFile> {
    await this.opens.pass();
    const opened = await fileOpener.open(path);
    this.openCount += 1;
    return { ...opened, handle: this.#slow(opened.handle) };
  }

  look(path: string) {
    return fileOpener.look(path);
  }

  #slow(handle: OpenHandle): OpenHandle {
    return {
      read: (async (buffer: Uint8Array, offset: number, length: number, position: number) =>
        handle.read(buffer, offset, Math.min(length, this.maxBytesPerCall), position)) as OpenHandle["read"],
      write: (async (buffer: Uint8Array, offset: number, length: number, position: number) => {
        await this.writes.pass();
        return handle.write(buffer, offset, Math.min(length, this.maxBytesPerCall), position);
      }) as OpenHandle["write"],
      datasync: async () => {
        const failure = this.failNextSync;
        this.failNextSync = undefined;
        if (failure) throw failure;
        await handle.datasync();
        this.syncCount += 1;
      },
      close: async () => {
        await handle.close();
        this.openCount -= 1;
      },
    };
  }
}

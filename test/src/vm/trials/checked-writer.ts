import { constants, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { NbdClient, NbdRequestError } from "@diskmesh/disk-agent/nbd-client";
import { eventually } from "@diskmesh/testkit";

/** The compiler knows it in browsers only. */
declare const WebAssembly: { Memory: new (of: { initial: number }) => { readonly buffer: ArrayBuffer } };

export const BLOCK_BYTES = 4_096;
const RECONNECT_MS = 100;

/** Target of writes. Each one that was acknowledged is on the disk. */
interface Target {
  write(buffer: Buffer, offsetBytes: number): Promise<unknown>;
  close(): Promise<void>;
}

async function openTarget(path: string): Promise<Target> {
  if (statSync(path).isSocket()) return new SocketTarget(path);
  const file = await open(path, constants.O_RDWR | constants.O_DIRECT);
  return {
    write: (buffer, offsetBytes) => file.write(buffer, 0, buffer.length, offsetBytes),
    close: () => file.close(),
  };
}

/** Disk behind an NBD socket, whose agent may end: connects again, and repeats the write. */
class SocketTarget implements Target {
  #client: Promise<NbdClient> | undefined;

  constructor(private readonly path: string) {}

  async write(buffer: Buffer, offsetBytes: number): Promise<void> {
    for (;;) {
      const connecting = this.#client ?? NbdClient.connect({ socketPath: this.path });
      this.#client = connecting;
      try {
        return await (await connecting).write(offsetBytes, buffer, { fua: true });
      } catch (error) {
        if (error instanceof NbdRequestError) throw error;
        if (this.#client === connecting) this.#client = undefined;
        await sleep(RECONNECT_MS);
      }
    }
  }

  async close(): Promise<void> {
    await (await this.#client?.catch(() => undefined))?.disconnect();
  }
}

/** Writes numbered blocks, and remembers which number of each block was acknowledged. */
export class CheckedWriter {
  readonly errors: string[] = [];
  writes = 0;
  /** Longest time in ms of a write since the caller has set it to 0. */
  longestMs = 0;
  readonly #acknowledged: number[];
  readonly #issued: number[];
  #stopped = false;
  readonly #ended: Promise<unknown>;

  private constructor(
    private readonly target: Target,
    blocks: number,
    private readonly restMs: number,
  ) {
    this.#acknowledged = Array<number>(blocks).fill(0);
    this.#issued = Array<number>(blocks).fill(0);
    const buffers = alignedBlocks(blocks);
    this.#ended = Promise.all(buffers.map((buffer, block) => this.#writeOften(block, buffer)));
  }

  /** Writes to the first `blocks` blocks of the device or NBD socket at `path`, all at a time, with a rest after each write. */
  static async start(path: string, blocks: number, restMs = 0): Promise<CheckedWriter> {
    return new CheckedWriter(await openTarget(path), blocks, restMs);
  }

  /** Resolves when each of the blocks has been written since. Rejects when a write has failed. */
  async progress(): Promise<void> {
    const before = [...this.#issued];
    const isDone = () => before.every((issued, block) => (this.#acknowledged[block] ?? 0) > issued);
    await eventually(() => isDone() || this.errors.length > 0);
    if (!isDone()) throw new Error(`writes have failed: ${this.errors.join(", ")}`);
  }

  /** Resolves when no write is in flight, because all have failed or `stop` was called. */
  async ended(): Promise<void> {
    await this.#ended;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#ended;
    await this.target.close();
  }

  /** Returns a line for each block of `path` that is torn, or holds neither the acknowledged nor a later number. */
  async faults(path: string): Promise<string[]> {
    return this.faultsIn(await readDirect(path, this.#issued.length));
  }

  /** Returns the faults of these bytes, which were read from the device. */
  faultsIn(bytes: Buffer): string[] {
    return this.#issued.flatMap((issued, block) => {
      const numbers = new Set<number>();
      for (let at = 0; at < BLOCK_BYTES; at += 8) numbers.add(bytes.readDoubleLE(block * BLOCK_BYTES + at));
      const [number = -1] = numbers;
      const acknowledged = this.#acknowledged[block] ?? 0;
      if (numbers.size === 1 && number >= acknowledged && number <= issued) return [];
      return [`block ${block} has ${[...numbers]}, acknowledged ${acknowledged}, issued ${issued}`];
    });
  }

  async #writeOften(block: number, buffer: Buffer): Promise<void> {
    for (let number = 1; !this.#stopped; number++) {
      for (let at = 0; at < BLOCK_BYTES; at += 8) buffer.writeDoubleLE(number, at);
      this.#issued[block] = number;
      const beganMs = performance.now();
      try {
        await this.target.write(buffer, block * BLOCK_BYTES);
      } catch (error) {
        this.errors.push((error as NodeJS.ErrnoException).code ?? String(error));
        return;
      }
      this.#acknowledged[block] = number;
      this.writes++;
      this.longestMs = Math.max(this.longestMs, performance.now() - beganMs);
      if (this.restMs > 0) await sleep(this.restMs);
    }
  }
}

/** Reads the first blocks of a device without the page cache. */
export async function readDirect(path: string, blocks: number): Promise<Buffer> {
  await using file = await open(path, constants.O_RDONLY | constants.O_DIRECT);
  const buffers = alignedBlocks(blocks);
  for (const [block, buffer] of buffers.entries()) await file.read(buffer, 0, BLOCK_BYTES, block * BLOCK_BYTES);
  return Buffer.concat(buffers);
}

/** Returns blocks at addresses that O_DIRECT takes: the memory of WebAssembly begins at a page. */
export function alignedBlocks(count: number): Buffer[] {
  const pages = Math.ceil((count * BLOCK_BYTES) / 65_536);
  const { buffer } = new WebAssembly.Memory({ initial: pages });
  return Array.from({ length: count }, (_, block) => Buffer.from(buffer, block * BLOCK_BYTES, BLOCK_BYTES));
}

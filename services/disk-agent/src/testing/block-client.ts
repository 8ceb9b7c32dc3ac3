import { execFile } from "node:child_process";
import { constants, readFileSync, realpathSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { basename } from "node:path";
import { promisify } from "node:util";
import { alignedBuffer } from "../host/direct-read.js";
import { SECTOR_BYTES } from "../model/mapped-devices.js";

const BUFFER_BYTES = 4 * 1024 * 1024;
const BLOCK_BYTES = 4_096;

/** Uses a block device without the page cache, as a client of an NBD socket uses that. One request at a time. */
export class BlockClient {
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #buffer = alignedBuffer(BUFFER_BYTES);
  #last: Promise<unknown> = Promise.resolve();

  private constructor(path: string, file: FileHandle) {
    this.#path = path;
    this.#file = file;
  }

  static async open(link: string): Promise<BlockClient> {
    const path = realpathSync(link);
    return new BlockClient(path, await open(path, constants.O_RDWR | constants.O_DIRECT));
  }

  get sizeBytes(): number {
    return SECTOR_BYTES * Number(readFileSync(`/sys/class/block/${basename(this.#path)}/size`, "utf8"));
  }

  read(offsetBytes: number, lengthBytes: number): Promise<Buffer> {
    return this.#inTurn(async () => {
      const { bytesRead } = await this.#file.read(this.#buffer, 0, lengthBytes, offsetBytes);
      if (bytesRead < lengthBytes) throw new Error(`the device ends at byte ${offsetBytes + bytesRead}`);
      return Buffer.from(this.#buffer.subarray(0, lengthBytes));
    });
  }

  write(offsetBytes: number, data: Uint8Array, { fua = false } = {}): Promise<void> {
    return this.#inTurn(async () => {
      this.#buffer.set(data);
      await this.#file.write(this.#buffer, 0, data.length, offsetBytes);
      if (fua) await this.#file.datasync();
    });
  }

  flush(): Promise<void> {
    return this.#inTurn(() => this.#file.datasync());
  }

  writeZeroes(offsetBytes: number, lengthBytes: number): Promise<void> {
    return this.#discard(offsetBytes, lengthBytes, "--zeroout");
  }

  trim(offsetBytes: number, lengthBytes: number): Promise<void> {
    return this.#discard(offsetBytes, lengthBytes);
  }

  async disconnect(): Promise<void> {
    await this.#file.close();
  }

  async #discard(offsetBytes: number, lengthBytes: number, ...options: string[]): Promise<void> {
    const range = ["--offset", `${offsetBytes}`, "--length", `${lengthBytes}`];
    await promisify(execFile)("blkdiscard", [...options, ...range, this.#path]);
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#last.catch(() => undefined).then(work);
    this.#last = turn;
    return turn;
  }
}

/** Writers of a block device. */
export interface BlockFlood {
  /** Number of acknowledged writes. */
  writes(): number;
  /** Codes of the errors with which the writers have ended. */
  readonly errors: ReadonlySet<string>;
  /** Resolves once every write has failed. */
  readonly ended: Promise<unknown>;
}

/** Writes to random blocks until the writes fail, `depth` of them at a time. Every write has other bytes than the ones before. */
export async function beginBlockFlood(link: string, depth: number): Promise<BlockFlood> {
  const client = await BlockClient.open(link);
  const blocks = client.sizeBytes / BLOCK_BYTES;
  await client.disconnect();
  const file = await open(realpathSync(link), constants.O_RDWR | constants.O_DIRECT);
  const buffer = alignedBuffer(depth * BLOCK_BYTES);
  const errors = new Set<string>();
  let writes = 0;
  let begun = 0;
  const write = async (index: number): Promise<void> => {
    const block = buffer.subarray(index * BLOCK_BYTES, (index + 1) * BLOCK_BYTES);
    for (;;) {
      begun += 1;
      block.fill(`write ${begun} `);
      try {
        await file.write(block, 0, BLOCK_BYTES, Math.floor(Math.random() * blocks) * BLOCK_BYTES);
      } catch (error) {
        errors.add((error as NodeJS.ErrnoException).code ?? String(error));
        return;
      }
      writes += 1;
    }
  };
  const running = Promise.all(Array.from({ length: depth }, (_, index) => write(index)));
  return { writes: () => writes, errors, ended: running.finally(() => file.close()) };
}

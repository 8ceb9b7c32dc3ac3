import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { messageOf } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import type { Random } from "../random.js";

export const BLOCK_BYTES = 4_096;
const CHUNK_BLOCKS = 64;
/** Pause in ms between two uses, which leaves CPU time for other processes. */
const PAUSE_MS = 50;
const PATIENCE = { everyMs: 200, timeoutMs: 300_000 };

/** Content of a block, as its first line says. */
export interface WrittenBlock {
  readonly diskId: string;
  readonly block: number;
  readonly round: number;
}

const contentOf = ({ diskId, block, round }: WrittenBlock): Buffer =>
  Buffer.alloc(BLOCK_BYTES, `disk ${diskId} block ${block} round ${round}\n`);

/** Returns what was written to the block; undefined when it is no whole write of any disk. */
export function parseBlock(bytes: Buffer): WrittenBlock | undefined {
  const [, diskId = "", block, round] = /^disk (\S+) block (\d+) round (\d+)\n/.exec(bytes.toString("latin1")) ?? [];
  const found = { diskId, block: Number(block), round: Number(round) };
  return diskId !== "" && bytes.equals(contentOf(found)) ? found : undefined;
}

interface CheckedDiskOptions {
  readonly diskId: string;
  readonly random: Random;
  /** Publishes the disk where it is to be used, and returns the path of its socket. */
  readonly publish: () => Promise<string>;
  readonly violation: (text: string) => void;
}

/**
 * Writes blocks of a disk and reads them back, as long as it runs. Each block must have its last acknowledged write, or a
 * later one that was not acknowledged.
 */
export class CheckedDisk {
  /** Complete reads. */
  reads = 0;
  /** Acknowledged writes of blocks. */
  writes = 0;
  /** Longest time in ms in which nothing was acknowledged, while the disk was published. */
  longestPauseMs = 0;
  readonly #options: CheckedDiskOptions;
  /** Rounds by block: of the last acknowledged write, and of the last write. 0 for none: zeros. */
  readonly #answered: number[] = [];
  readonly #asked: number[] = [];
  #client: NbdClient | undefined;
  #socketPath = "";
  #round = 0;
  #lastError = "";
  #wish: "use" | "rest" | "end" = "use";
  #isResting = false;
  readonly #running: Promise<void>;

  constructor(options: CheckedDiskOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  /** Returns whether the block may have been written. */
  isWritten({ block, round }: WrittenBlock): boolean {
    return round > 0 && round >= (this.#answered[block] ?? 0) && round <= (this.#asked[block] ?? 0);
  }

  /** Resolves once nothing uses the disk, until `goOn`. */
  async rest(): Promise<void> {
    this.#wish = "rest";
    await eventually(() => {
      if (!this.#isResting) throw new Error(`disk ${this.#options.diskId} is in use: ${this.#lastError}`);
    }, PATIENCE);
  }

  goOn(): void {
    this.#wish = "use";
  }

  /** Reads the whole disk, and compares it. */
  async check(): Promise<void> {
    const wanted = this.reads + 1;
    await this.rest();
    await eventually(async () => {
      const client = await this.#connected();
      try {
        for (let block = 0; block < client.sizeBytes / BLOCK_BYTES; block += CHUNK_BLOCKS)
          await this.#compare(client, block);
      } catch (error) {
        this.#client = undefined;
        throw error;
      }
    }, PATIENCE);
    this.reads = wanted;
    this.goOn();
  }

  async end(): Promise<void> {
    this.#wish = "end";
    await this.#client?.disconnect().catch(() => {});
    await this.#running;
  }

  async #run(): Promise<void> {
    let doneAtMs = performance.now();
    while (this.#wish !== "end") {
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      this.#isResting = this.#wish === "rest";
      if (this.#isResting) {
        doneAtMs = performance.now();
        continue;
      }
      try {
        const client = await this.#connected();
        await this.#write(client);
        await this.#compare(client, this.#options.random.below(client.sizeBytes / BLOCK_BYTES));
        this.longestPauseMs = Math.max(this.longestPauseMs, performance.now() - doneAtMs);
        doneAtMs = performance.now();
      } catch (error) {
        this.#lastError = messageOf(error);
        await this.#client?.disconnect().catch(() => {});
        this.#client = undefined;
      }
    }
  }

  /** Connects to the socket that the disk had, and asks for another one when nobody listens there. */
  async #connected(): Promise<NbdClient> {
    if (this.#client !== undefined) return this.#client;
    try {
      if (this.#socketPath === "") throw new Error("the disk was never published");
      this.#client = await NbdClient.connect({ socketPath: this.#socketPath });
    } catch {
      this.#socketPath = await this.#options.publish();
      this.#client = await NbdClient.connect({ socketPath: this.#socketPath });
    }
    return this.#client;
  }

  async #write(client: NbdClient): Promise<void> {
    const { diskId, random } = this.#options;
    const blocks = client.sizeBytes / BLOCK_BYTES;
    const first = random.below(blocks);
    const round = ++this.#round;
    const written = Array.from(
      { length: Math.min(1 + random.below(CHUNK_BLOCKS), blocks - first) },
      (_, at) => first + at,
    );
    for (const block of written) this.#asked[block] = round;
    const data = Buffer.concat(written.map((block) => contentOf({ diskId, block, round })));
    await client.write(first * BLOCK_BYTES, data, { fua: true });
    for (const block of written) this.#answered[block] = round;
    this.writes += written.length;
  }

  async #compare(client: NbdClient, first: number): Promise<void> {
    const { diskId, violation } = this.#options;
    const count = Math.min(CHUNK_BLOCKS, client.sizeBytes / BLOCK_BYTES - first);
    const data = await client.read(first * BLOCK_BYTES, count * BLOCK_BYTES);
    for (let at = 0; at < count; at++) {
      const block = first + at;
      const bytes = Buffer.from(data.subarray(at * BLOCK_BYTES, (at + 1) * BLOCK_BYTES));
      const found = parseBlock(bytes);
      const isOwn = found?.diskId === diskId && found.block === block && this.isWritten(found);
      const isEmpty = (this.#answered[block] ?? 0) === 0 && bytes.every((byte) => byte === 0);
      if (isOwn) this.#answered[block] = found.round;
      else if (!isEmpty)
        violation(
          `block ${block} of ${diskId} holds ${JSON.stringify(bytes.subarray(0, 48).toString("latin1"))}, and round ${this.#answered[block] ?? 0} was acknowledged`,
        );
    }
  }
}

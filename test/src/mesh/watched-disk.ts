import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { messageOf } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";

const BLOCK_BYTES = 4_096;
const CHUNK_BLOCKS = 64;
/** Pause in ms between reads, which leaves CPU time for other processes. */
const PAUSE_MS = 100;
/** Timeout in ms of a write or a complete read on a busy machine. */
const PATIENCE = { everyMs: 50, timeoutMs: 120_000 };

/** Returns content that no other block of any disk has. */
const patternOf = (diskId: string, block: number): Buffer =>
  Buffer.alloc(BLOCK_BYTES, `disk ${diskId} block ${block}\n`);

/** Writes a pattern to a disk, and reads the disk all the time. Bytes of another disk, or of another block, are a violation. */
export class WatchedDisk {
  readonly violations: string[] = [];
  /** True once bytes of the disk were overwritten outside diskmesh. They may be anything but a pattern. */
  isDamaged = false;
  #client: NbdClient | undefined;
  #lastError = "";
  #begun = 0;
  #read = 0;
  #isStopped = false;
  #running: Promise<void> | undefined;

  constructor(
    readonly diskId: string,
    private readonly socketPath: string,
  ) {}

  /** Writes all of the disk, and begins to read. */
  async begin(): Promise<void> {
    const client = await eventually(() => NbdClient.connect({ socketPath: this.socketPath }), PATIENCE);
    const blocks = client.sizeBytes / BLOCK_BYTES;
    for (let block = 0; block < blocks; block += CHUNK_BLOCKS) {
      const count = Math.min(CHUNK_BLOCKS, blocks - block);
      const data = Array.from({ length: count }, (_, index) => patternOf(this.diskId, block + index));
      await client.write(block * BLOCK_BYTES, Buffer.concat(data), { fua: true });
    }
    this.#client = client;
    this.#running = this.#run();
  }

  /** Resolves once the whole disk was read by a read that began after this call. */
  async whenRead(): Promise<void> {
    const wanted = this.#begun + 1;
    await eventually(() => {
      if (this.#read < wanted) throw new Error(`disk ${this.diskId} is not served: ${this.#lastError}`);
    }, PATIENCE);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#client?.disconnect().catch(() => {});
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      const number = ++this.#begun;
      try {
        this.#client ??= await NbdClient.connect({ socketPath: this.socketPath });
        await this.#readAll(this.#client);
        this.#read = number;
      } catch (error) {
        this.#lastError = messageOf(error);
        this.#client = undefined;
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }

  async #readAll(client: NbdClient): Promise<void> {
    for (let offset = 0; offset < client.sizeBytes; offset += CHUNK_BLOCKS * BLOCK_BYTES) {
      const data = await client.read(offset, Math.min(CHUNK_BLOCKS * BLOCK_BYTES, client.sizeBytes - offset));
      for (let at = 0; at < data.length; at += BLOCK_BYTES)
        this.#compare((offset + at) / BLOCK_BYTES, data.subarray(at, at + BLOCK_BYTES));
    }
  }

  #compare(block: number, seen: Buffer): void {
    if (seen.equals(patternOf(this.diskId, block))) return;
    const [line = ""] = seen.toString("latin1").split("\n");
    if (this.isDamaged && !/disk \S+ block/.test(seen.toString("latin1"))) return;
    this.violations.push(`block ${block} of disk ${this.diskId} holds ${JSON.stringify(line.slice(0, 60))}`);
  }
}

import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { BLOCK_BYTES, DiskContent } from "../mesh/disk-content.js";
import { Load } from "../mesh/load.js";
import { Random } from "../random.js";

/** Blocks that are written: few, so that each is written often. */
const BLOCKS = 16;

/** Writes random blocks of a disk all the time, and compares every block with the last acknowledged write. */
export class CheckedWriter {
  readonly violations: string[] = [];
  readonly load: Load;
  isStopped = false;
  readonly #content: DiskContent;

  private constructor(
    readonly diskId: string,
    private client: NbdClient,
    random: Random,
  ) {
    this.#content = new DiskContent(diskId, BLOCKS);
    this.load = new Load(async () => {
      const block = random.below(BLOCKS) * Math.floor(this.client.sizeBytes / BLOCK_BYTES / BLOCKS);
      const written = this.#content.begin(block);
      await this.client.write(block * BLOCK_BYTES, written, { fua: true });
      this.#content.settle(block, written);
      await this.#read(this.client);
    });
  }

  static async start(diskId: string, socketPath: string, seed: number): Promise<CheckedWriter> {
    return new CheckedWriter(diskId, await NbdClient.connect({ socketPath }), new Random(seed));
  }

  /** Compares the disk at another path, after the writer was stopped. */
  async check(socketPath: string): Promise<void> {
    const client = await NbdClient.connect({ socketPath });
    await this.#read(client);
    await client.disconnect();
  }

  async stop(): Promise<void> {
    if (this.isStopped) return;
    this.isStopped = true;
    await this.load.stop();
    await this.client.disconnect().catch(() => undefined);
  }

  async #read(client: NbdClient): Promise<void> {
    const step = Math.floor(this.client.sizeBytes / BLOCK_BYTES / BLOCKS);
    for (let at = 0; at < BLOCKS; at++) {
      const seen = await client.read(at * step * BLOCK_BYTES, BLOCK_BYTES);
      const violation = this.#content.look(at * step, seen);
      if (violation !== undefined) this.violations.push(violation);
    }
  }
}

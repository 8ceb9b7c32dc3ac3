import { randomInt } from "node:crypto";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { BLOCK_BYTES, DiskContent } from "./disk-content.js";
import { Load } from "./load.js";

/** Blocks that are written: few, so that each is written often. */
const BLOCKS = 16;

/** Writes random blocks of a disk all the time, and compares every block with the last acknowledged write. */
export class CheckedWriter {
  readonly load: Load;
  /** Number of rounds in which no request failed. */
  wholeRounds = 0;
  isStopped = false;
  readonly #content: DiskContent;
  readonly #violations: string[] = [];
  #client: NbdClient | undefined;

  /** While `mayFail` returns true, a failed request is no failure of the load. The next connection goes on. */
  constructor(
    readonly diskId: string,
    private readonly socketPath: string,
    private readonly mayFail = () => false,
  ) {
    this.#content = new DiskContent(diskId);
    this.load = new Load(() => this.#round());
  }

  /** Failed reads and writes, and bytes that differ. */
  get faults(): readonly string[] {
    return [...this.#violations, ...this.load.failures.map((failure) => `${this.diskId}: ${failure}`)];
  }

  /** Compares the disk at another path, after the writer was stopped. */
  async check(socketPath: string): Promise<void> {
    const client = await NbdClient.connect({ socketPath });
    await this.#compare(client);
    await client.disconnect();
  }

  async stop(): Promise<void> {
    if (this.isStopped) return;
    this.isStopped = true;
    await this.load.stop();
    await this.#client?.disconnect().catch(() => undefined);
  }

  async #round(): Promise<void> {
    const mightFail = this.mayFail();
    try {
      this.#client ??= await NbdClient.connect({ socketPath: this.socketPath });
      await this.#compare(this.#client);
      await this.#content.write(this.#client, randomInt(BLOCKS) * stepOf(this.#client));
      await this.#compare(this.#client);
      this.wholeRounds += 1;
    } catch (error) {
      this.#client?.destroy();
      this.#client = undefined;
      if (!(mightFail || this.mayFail())) throw error;
    }
  }

  async #compare(client: NbdClient): Promise<void> {
    for (let at = 0; at < BLOCKS; at++) {
      const block = at * stepOf(client);
      const violation = this.#content.look(block, await client.read(block * BLOCK_BYTES, BLOCK_BYTES));
      if (violation !== undefined) this.#violations.push(violation);
    }
  }
}

const stepOf = ({ sizeBytes }: NbdClient): number => Math.floor(sizeBytes / BLOCK_BYTES / BLOCKS);

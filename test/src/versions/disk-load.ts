import { NbdClient } from "@diskmesh/disk-agent/nbd-client";

const BLOCK_BYTES = 4_096;

/**
 * Uses a disk like a program on a host: writes, reads, and compares. While `mayFail` is true its connection may break;
 * the next connection must have all acknowledged writes.
 */
export class DiskLoad {
  #client: NbdClient | undefined;
  #answered: Buffer = Buffer.alloc(BLOCK_BYTES);
  #asked: Buffer = this.#answered;

  constructor(
    private readonly options: {
      readonly name: string;
      readonly socketPath: string;
      readonly mayFail: () => boolean;
      /** Called after each successful round. */
      readonly onDone: () => void;
    },
  ) {}

  async round(number: number): Promise<void> {
    const { name, socketPath, mayFail, onDone } = this.options;
    const mightFail = mayFail();
    try {
      this.#client ??= await NbdClient.connect({ socketPath });
      await this.#compare(this.#client);
      this.#asked = Buffer.alloc(BLOCK_BYTES, `${name} round ${number} `);
      await this.#client.write(0, this.#asked, { fua: true });
      this.#answered = this.#asked;
      await this.#compare(this.#client);
      onDone();
    } catch (error) {
      this.#client = undefined;
      if (error instanceof LostWriteError || !(mightFail || mayFail())) throw error;
    }
  }

  async close(): Promise<void> {
    await this.#client?.disconnect();
  }

  /** Requires that the disk has the last acknowledged write, or a later unacknowledged one. */
  async #compare(client: NbdClient): Promise<void> {
    const read = Buffer.from(await client.read(0, BLOCK_BYTES));
    if (read.equals(this.#answered) || read.equals(this.#asked)) {
      this.#answered = read;
      return;
    }
    const text = (bytes: Buffer) => JSON.stringify(bytes.subarray(0, 24).toString());
    throw new LostWriteError(`${this.options.name} holds ${text(read)}, not ${text(this.#answered)}`);
  }
}

class LostWriteError extends Error {}

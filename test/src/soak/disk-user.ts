import { setTimeout as delay } from "node:timers/promises";
import { NbdClient, NbdRequestError } from "@diskmesh/disk-agent/nbd-client";
import { messageOf } from "@diskmesh/domain";
import { BLOCK_BYTES, type DiskContent } from "../mesh/disk-content.js";
import { PATIENCE_MS, type Soak, type Worker } from "./soak.js";
import { underWay } from "./under-way.js";

const MOST_WRITES = 20;
const RETRY_MS = 300;
/** Timeout in ms, longer than a drive hangs and than I/O on another host's device waits. */
const IO_TIMEOUT_MS = 90_000;
const BLOCKS_READ_AT_ONCE = 64;
/** Time in ms within which a registered agent exports its disks again. */
const EXPORTED_AGAIN_MS = 15_000;

/** A program on a host that has a disk open, and reopens it when its server has gone away. */
export class DiskUser {
  #client: NbdClient | undefined;

  constructor(
    private readonly soak: Soak,
    private readonly hostId: string,
    private readonly socketPath: string,
    private readonly content: DiskContent,
  ) {}

  /** Writes some blocks. Each write is retried until it is acknowledged as durable. */
  async write(count: number, { random }: Worker): Promise<void> {
    for (let done = 0; done < count; done++) {
      const block = random.below(this.content.blocks);
      const data = this.content.begin(block);
      const isForced = random.next() < 0.5;
      await this.#use("NBD write", async (client) => {
        await client.write(block * BLOCK_BYTES, data, { fua: isForced });
        if (!isForced) await client.flush();
      });
      this.content.settle(block, data);
    }
  }

  /** Reads the whole disk, and compares it. */
  async verify(): Promise<void> {
    const { content, soak } = this;
    for (let first = 0; first < content.blocks; first += BLOCKS_READ_AT_ONCE) {
      const count = Math.min(BLOCKS_READ_AT_ONCE, content.blocks - first);
      const bytes = await this.#use("NBD read", (client) => client.read(first * BLOCK_BYTES, count * BLOCK_BYTES));
      for (let index = 0; index < count; index++) {
        const seen = Buffer.from(bytes.subarray(index * BLOCK_BYTES, (index + 1) * BLOCK_BYTES));
        const problem = content.look(first + index, seen);
        if (problem !== undefined) soak.violations.add(`one writer, nothing lost: ${problem}`);
      }
    }
  }

  /** Opens the disk, compares it with what was written, writes some more blocks, and closes it. */
  static async once(
    soak: Soak,
    { hostId, socketPath }: { readonly hostId: string; readonly socketPath: string },
    content: DiskContent,
    worker: Worker,
  ): Promise<void> {
    const user = new DiskUser(soak, hostId, socketPath, content);
    try {
      await user.verify();
      await user.write(1 + worker.random.below(MOST_WRITES), worker);
      if (worker.random.next() < 0.3) await user.verify();
    } finally {
      await user.close();
    }
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    if (client !== undefined) await within(2_000, client.disconnect()).catch(() => {});
  }

  /** Retries on new connections until the request succeeds. */
  #use<T>(name: string, act: (client: NbdClient) => Promise<T>): Promise<T> {
    const untilMs = performance.now() + PATIENCE_MS;
    return underWay(`${name} through ${this.socketPath}`, async (wentWrong) => {
      for (;;) {
        try {
          return await this.soak.measures.time(name, () => this.#tryIt(act), toBeRepeated);
        } catch (error) {
          wentWrong(error);
          this.#check(name, error);
          await this.close();
          if (performance.now() > untilMs)
            throw new Error(`${name} through ${this.socketPath} failed for ${PATIENCE_MS} ms: ${messageOf(error)}`);
          await delay(RETRY_MS);
        }
      }
    });
  }

  /** Requires, when restarts are the only faults, that I/O fails only for programs on the host whose agent restarts. */
  #check(name: string, error: unknown): void {
    const { fleet, violations, hasOnlyRestarts } = this.soak;
    const upForMs = fleet.supervised.get(this.hostId)?.upForMs ?? 0;
    if (hasOnlyRestarts && upForMs > EXPORTED_AGAIN_MS)
      violations.add(
        `I/O fails where an agent restarts alone: ${name} through ${this.socketPath}, whose agent of ${this.hostId} is up for ${Math.round(upForMs)} ms: ${messageOf(error)}`,
      );
  }

  async #tryIt<T>(act: (client: NbdClient) => Promise<T>): Promise<T> {
    this.#client ??= await within(IO_TIMEOUT_MS, NbdClient.connect({ socketPath: this.socketPath }));
    return within(IO_TIMEOUT_MS, act(this.#client));
  }
}

/** A client reconnects and repeats unanswered requests. Different data at the next read is a violation. */
const toBeRepeated = () => "to be repeated" as const;

async function within<T>(limitMs: number, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new NbdRequestError("a request", "no answer")), limitMs);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

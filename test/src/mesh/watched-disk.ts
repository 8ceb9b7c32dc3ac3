import { setTimeout as sleep } from "node:timers/promises";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { messageOf } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { DiskContent } from "./disk-content.js";

/** Pause in ms between reads, which leaves CPU time for other processes. */
const PAUSE_MS = 100;

/** Writes a disk once, and reads it all the time. Bytes of another disk, or of another block, are a violation. */
export class WatchedDisk {
  readonly violations: string[] = [];
  readonly content: DiskContent;
  #client: NbdClient | undefined;
  #lastError = "";
  #begun = 0;
  #read = 0;
  #isStopped = false;
  #running: Promise<void> | undefined;

  constructor(
    private readonly diskId: string,
    private readonly socketPath: string,
  ) {
    this.content = new DiskContent(diskId);
  }

  /** Writes all of the disk, and begins to read. */
  async begin(): Promise<void> {
    const client = await eventually(() => NbdClient.connect({ socketPath: this.socketPath }));
    await this.content.write(client, 0, { toEnd: true });
    this.#client = client;
    this.#running = this.#run();
  }

  /** Resolves once the whole disk was read by a read that began after this call. */
  async whenRead(): Promise<void> {
    const wanted = this.#begun + 1;
    await eventually(() => {
      if (this.#read < wanted) throw new Error(`disk ${this.diskId} is not served: ${this.#lastError}`);
    });
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
        this.violations.push(...(await this.content.faults(this.#client)));
        this.#read = number;
      } catch (error) {
        this.#lastError = messageOf(error);
        this.#client = undefined;
      }
      await sleep(PAUSE_MS);
    }
  }
}

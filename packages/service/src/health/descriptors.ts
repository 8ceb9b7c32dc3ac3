import { readdirSync, readFileSync } from "node:fs";
import type { Logger } from "@diskmesh/domain";

const COUNT_INTERVAL_MS = 1_000;
/**
 * Minimum time between two counts of the open descriptors. A count reads a folder with one entry per descriptor, so it
 * must not run for each connection.
 */
const MIN_COUNT_INTERVAL_MS = 100;

export interface DescriptorsOptions {
  /**
   * Descriptors reserved for everything but new connections: device files, CPIs, databases. At most a quarter of the
   * limit.
   */
  readonly reserved: number;
  readonly log: Logger;
  /** Called when descriptors become short, and when they no longer are. */
  readonly onChange: (short: boolean) => void;
}

/**
 * Watches the number of free file descriptors. A process without free descriptors cannot open a device or start a CPI,
 * so new connections are refused while some are left.
 */
export class Descriptors {
  #limit = Number.POSITIVE_INFINITY;
  #allowed = Number.POSITIVE_INFINITY;
  #used = 0;
  #countedAtMs = Number.NEGATIVE_INFINITY;
  #short = false;
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: DescriptorsOptions) {
    this.#count();
    if (Number.isFinite(this.#limit)) this.#timer = setInterval(() => this.#count(), COUNT_INTERVAL_MS).unref();
  }

  /** Called before each new connection; returns why it must be refused. */
  shortage(): string | undefined {
    if (!Number.isFinite(this.#limit)) return undefined;
    // Each connection is counted as one descriptor. This upper bound makes a real count unnecessary most of the time.
    this.#used += 1;
    if (this.#used > this.#allowed && performance.now() - this.#countedAtMs >= MIN_COUNT_INTERVAL_MS) this.#count();
    return this.#used > this.#allowed
      ? `${this.#allowed} of ${this.#limit} descriptors are in use, the rest is reserved (reservedDescriptors)`
      : undefined;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #count(): void {
    this.#countedAtMs = performance.now();
    try {
      // Read each time, because an operator can raise the limit while the process runs.
      this.#limit = softLimit();
      this.#used = readdirSync("/proc/self/fd").length;
    } catch (error) {
      // When no descriptor is left for counting, all are in use. Only Linux has the folder.
      if (!["EMFILE", "ENFILE"].includes((error as NodeJS.ErrnoException).code ?? "")) return;
      this.#used = this.#limit;
    }
    this.#allowed = this.#limit - Math.min(this.options.reserved, Math.floor(this.#limit / 4));
    this.#tell(this.#used > this.#allowed);
  }

  #tell(short: boolean): void {
    if (short === this.#short) return;
    this.#short = short;
    const { log, onChange } = this.options;
    const fields = { used: this.#used, limit: this.#limit };
    if (short)
      log.error(
        { alert: "descriptors", ...fields },
        "file descriptors exhausted, new connections refused; raise LimitNOFILE or ulimit -n",
      );
    else log.info({ alertEnded: "descriptors", ...fields }, "file descriptor shortage ended");
    onChange(short);
  }
}

function softLimit(): number {
  const soft = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}

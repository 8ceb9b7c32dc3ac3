import { readdirSync, readFileSync } from "node:fs";
import type { Logger } from "@diskmesh/domain";

const LOOK_INTERVAL_MS = 1_000;
/** Between two counts, however many connections come: a count reads a folder with an entry for each descriptor. */
const MIN_COUNT_INTERVAL_MS = 100;

export interface DescriptorsOptions {
  /** Kept for all that is not a new connection: device files, CPIs, databases. At most a quarter of all there are. */
  readonly reserved: number;
  readonly log: Logger;
  /** Is told when descriptors run short and when they do no more. */
  readonly onChange: (short: boolean) => void;
}

/**
 * Watches how many descriptors the process has left. A process without any cannot open a device or start a CPI, so new
 * connections, which anybody can make, are refused before that.
 */
export class Descriptors {
  #limit = Number.POSITIVE_INFINITY;
  #allowed = Number.POSITIVE_INFINITY;
  #used = 0;
  #countedAtMs = Number.NEGATIVE_INFINITY;
  #short = false;
  readonly #timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: DescriptorsOptions) {
    this.#look();
    if (Number.isFinite(this.#limit)) this.#timer = setInterval(() => this.#look(), LOOK_INTERVAL_MS).unref();
  }

  /** Asked before each new connection is taken; says why it may not be. */
  shortage(): string | undefined {
    if (!Number.isFinite(this.#limit)) return undefined;
    // An upper bound, from the connections taken since the last count, spares most counts.
    this.#used += 1;
    if (this.#used > this.#allowed && performance.now() - this.#countedAtMs >= MIN_COUNT_INTERVAL_MS) this.#look();
    return this.#used > this.#allowed
      ? `${this.#allowed} of ${this.#limit} descriptors are in use, the rest is kept (rpc.reservedDescriptors)`
      : undefined;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    this.#countedAtMs = performance.now();
    try {
      // Read each time: an operator can raise it while the process runs.
      this.#limit = softLimit();
      this.#used = readdirSync("/proc/self/fd").length;
    } catch (error) {
      // With none left to look with, all are in use. Elsewhere than on Linux there is nothing to look at.
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
    if (short) log.error(fields, "descriptors run out: no new connections; raise the limit (LimitNOFILE, ulimit -n)");
    else log.info(fields, "there are descriptors again");
    onChange(short);
  }
}

function softLimit(): number {
  const soft = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}

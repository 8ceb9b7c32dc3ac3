import { type Clock, InvalidArgumentError, type Logger, visible } from "@diskmesh/domain";

/** Interval in ms at which a csi-driver reports itself. */
export const REPORT_INTERVAL_MS = 5_000;
/** Time in ms without a report after which a driver stands still: three reports are missing. */
const SILENT_MS = 3 * REPORT_INTERVAL_MS;
/** Time in ms after which a silent driver is forgotten, because it may have been removed. */
const FORGET_MS = 86_400_000;
/** Ends without a last report that are too many within this time in ms. */
const MANY_ENDS = 3;
const ENDS_WINDOW_MS = 600_000;
/** Drivers that are watched. Those of a fleet's nodes report to the agents of their hosts. */
const MAX_DRIVERS = 1_000;
const MAX_TEXTS = 16;
const MAX_TEXT_LENGTH = 1_000;

/** A csi-driver's report of itself. */
export interface CsiDriverReport {
  /** Its machine and socket, which stay the same when it is restarted. */
  readonly driver: string;
  /** Random ID of this life of the process. */
  readonly startId: string;
  /** True in the last report of a process that is stopped. */
  readonly stops: boolean;
  /** Sentences that somebody must act on, each with its cure. */
  readonly warnings: readonly string[];
}

interface Known {
  readonly startId: string;
  readonly heardAtMs: number;
  /** Times at which another life replaced one that had sent no last report. */
  readonly endsAtMs: readonly number[];
  readonly warnings: readonly string[];
}

/** Watches the csi-drivers that report themselves. A driver that stands still or warns becomes an alert of this process. */
export class CsiDrivers {
  readonly #stop = new AbortController();
  readonly #known = new Map<string, Known>();
  /** Texts of present alerts by alert and driver. */
  readonly #told = new Map<string, string>();

  constructor(private readonly options: { readonly clock: Clock; readonly log: Logger }) {
    void this.#watch();
  }

  /** Throws InvalidArgumentError when the report exceeds a limit. */
  note(report: CsiDriverReport): void {
    const { driver, startId, stops, warnings } = report;
    if ([driver, startId].some((text) => text === "" || !isShort(text)))
      throw new InvalidArgumentError(`driver and start_id are needed, each of at most ${MAX_TEXT_LENGTH} characters`);
    if (warnings.length > MAX_TEXTS || !warnings.every(isShort))
      throw new InvalidArgumentError(
        `more than ${MAX_TEXTS} warnings, or one of more than ${MAX_TEXT_LENGTH} characters`,
      );
    const name = visible(driver);
    const before = this.#known.get(name);
    if (stops) this.#known.delete(name);
    else if (before !== undefined || this.#known.size < MAX_DRIVERS) {
      const nowMs = this.options.clock.monotonicMs();
      const hasEnded = before !== undefined && before.startId !== startId;
      const endsAtMs = [...(before?.endsAtMs ?? []), ...(hasEnded ? [nowMs] : [])].slice(-MANY_ENDS);
      this.#known.set(name, { startId, heardAtMs: nowMs, endsAtMs, warnings: warnings.map(visible) });
    }
    this.#tellOf(name);
  }

  /** Ends all alerts. */
  close(): void {
    this.#stop.abort();
    const names = [...this.#known.keys()];
    this.#known.clear();
    for (const name of names) this.#tellOf(name);
  }

  async #watch(): Promise<void> {
    const { clock } = this.options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      for (const [name, { heardAtMs }] of this.#known) {
        if (clock.monotonicMs() - heardAtMs > FORGET_MS) this.#known.delete(name);
        this.#tellOf(name);
      }
      await clock.sleep(REPORT_INTERVAL_MS, signal).catch(() => undefined);
    }
  }

  #tellOf(name: string): void {
    const nowMs = this.options.clock.monotonicMs();
    const { heardAtMs = nowMs, endsAtMs = [], warnings = [] } = this.#known.get(name) ?? {};
    const isSilent = nowMs - heardAtMs >= SILENT_MS;
    this.#tell("csi_driver_silent", name, isSilent ? `the csi-driver at ${name} sends no reports any more` : "");
    const ends = endsAtMs.filter((atMs) => nowMs - atMs < ENDS_WINDOW_MS);
    const killed =
      ends.length < MANY_ENDS
        ? []
        : [
            `it was killed or crashed ${MANY_ENDS} times within ${ENDS_WINDOW_MS / 60_000} min: read the last line of its former log, and the kernel's log for "Out of memory"`,
          ];
    const all = [...killed, ...(isSilent ? [] : warnings)].join("; ");
    this.#tell("csi_driver_warns", name, all === "" ? "" : `the csi-driver at ${name} warns: ${all}`);
  }

  #tell(alert: "csi_driver_silent" | "csi_driver_warns", alertOf: string, text: string): void {
    const { log } = this.options;
    const key = `${alert} ${alertOf}`;
    if (text === (this.#told.get(key) ?? "")) return;
    if (text === "") {
      this.#told.delete(key);
      log.info({ alertEnded: alert, alertOf }, "csi-driver has recovered");
    } else {
      this.#told.set(key, text);
      log.warn({ alert, alertOf }, text);
    }
  }
}

const isShort = (text: string): boolean => text.length <= MAX_TEXT_LENGTH;

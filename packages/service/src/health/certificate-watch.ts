import type { Clock } from "@diskmesh/domain";
import { InvalidStateError, type Logger } from "@diskmesh/domain";
import { observe } from "@diskmesh/metrics";
import type { CurrentTls } from "@diskmesh/tls";
import { processMetrics } from "./process-metrics.js";
import type { Readiness } from "./readiness.js";

const DAY_MS = 86_400_000;
/** Remaining validity of the certificate from which its coming end is logged once a day. */
const WARN_BEFORE_MS = 30 * DAY_MS;
const CHECK_INTERVAL_MS = 30_000;
const RENEWED_INTERVAL_MS = 1_000;

export interface CertificateWatchOptions {
  readonly tls: Pick<CurrentTls, "endsAtMs">;
  readonly certFile: string;
  readonly readiness: Pick<Readiness, "met" | "missing" | "certificateLeft">;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when the certificate has ended. */
  readonly onEnded: (error: InvalidStateError) => void;
}

/** Watches the end of the process's own certificate, after which no client accepts the process. */
export class CertificateWatch {
  readonly #options: CertificateWatchOptions;
  readonly #stop = new AbortController();
  readonly #endObserving: () => void;
  #toldAtMs = Number.NEGATIVE_INFINITY;
  /** Expiry of the certificate for which onEnded was called. */
  #endedAtMs: number | undefined;

  constructor(options: CertificateWatchOptions) {
    this.#options = options;
    const leftSeconds = (): number => (options.tls.endsAtMs - options.clock.nowMs()) / 1_000;
    this.#endObserving = observe(processMetrics.certificateLeft, (say) => say(leftSeconds()));
    void this.#run();
  }

  close(): void {
    this.#stop.abort();
    this.#endObserving();
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      const leftMs = this.#check();
      // Checks an expired certificate often, because it may be renewed at any time.
      await clock.sleep(leftMs > 0 ? Math.min(CHECK_INTERVAL_MS, leftMs) : RENEWED_INTERVAL_MS, signal).catch(() => {});
    }
  }

  /** Logs the state of the certificate, and returns its remaining time in milliseconds. */
  #check(): number {
    const { tls, clock, readiness } = this.#options;
    const { endsAtMs } = tls;
    const leftMs = endsAtMs - clock.nowMs();
    readiness.certificateLeft(leftMs);
    if (leftMs <= 0) this.#tellEnded(endsAtMs);
    else this.#tellEnding(endsAtMs, leftMs);
    return leftMs;
  }

  #tellEnded(endsAtMs: number): void {
    if (this.#endedAtMs === endsAtMs) return;
    this.#endedAtMs = endsAtMs;
    const { certFile, readiness, log, onEnded } = this.#options;
    const endsAt = new Date(endsAtMs).toISOString();
    const text = `the certificate in tls.certFile ${certFile} ended at ${endsAt}: renew it`;
    readiness.missing("certificate", text);
    log.error({ alert: "certificate_ended", certFile, endsAt }, text);
    onEnded(new InvalidStateError(text));
  }

  #tellRenewed(leftMs: number): void {
    const { log, certFile } = this.#options;
    const ended = [
      this.#endedAtMs !== undefined && ("certificate_ended" as const),
      leftMs > WARN_BEFORE_MS && this.#toldAtMs > 0 && ("certificate_ends" as const),
    ].filter((each) => each !== false);
    for (const alertEnded of ended) log.info({ alertEnded, certFile }, "certificate renewed");
    if (ended.includes("certificate_ended")) this.#endedAtMs = undefined;
    if (ended.includes("certificate_ends")) this.#toldAtMs = Number.NEGATIVE_INFINITY;
  }

  #tellEnding(endsAtMs: number, leftMs: number): void {
    const { certFile, readiness, clock, log } = this.#options;
    readiness.met("certificate");
    this.#tellRenewed(leftMs);
    if (leftMs > WARN_BEFORE_MS || clock.nowMs() - this.#toldAtMs < DAY_MS) return;
    this.#toldAtMs = clock.nowMs();
    const endsAt = new Date(endsAtMs).toISOString();
    const days = Math.floor(leftMs / DAY_MS);
    const text = `the certificate in tls.certFile ${certFile} ends in ${days} days, at ${endsAt}: renew it`;
    log.warn({ alert: "certificate_ends", certFile, endsAt, days }, text);
  }
}

import { X509Certificate } from "node:crypto";
import { InvalidStateError, type Logger } from "@diskmesh/domain";
import type { Clock } from "./clock.js";
import type { Readiness } from "./readiness.js";

const DAY_MS = 86_400_000;
/** So long before its end a certificate is told of, once a day. */
const TELL_BEFORE_MS = 30 * DAY_MS;
const LOOK_INTERVAL_MS = 30_000;

export interface CertificateWatchOptions {
  /** What the process identifies itself with, as it was read at the start, and where from. */
  readonly certPem: string | Buffer;
  readonly certFile: string;
  readonly readiness: Pick<Readiness, "met" | "missing">;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called once, when the certificate has ended. */
  readonly onEnded: (error: InvalidStateError) => void;
}

/** Watches when the process's own certificate ends: from then on nobody talks to it, whatever else it can do. */
export class CertificateWatch {
  readonly #options: CertificateWatchOptions;
  readonly #endsAtMs: number;
  readonly #stop = new AbortController();
  #toldAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: CertificateWatchOptions) {
    this.#options = options;
    this.#endsAtMs = Date.parse(new X509Certificate(options.certPem).validTo);
    void this.#run();
  }

  close(): void {
    this.#stop.abort();
  }

  async #run(): Promise<void> {
    const { clock } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted && !this.#look()) {
      const leftMs = Math.max(0, this.#endsAtMs - clock.nowMs());
      await clock.sleep(Math.min(LOOK_INTERVAL_MS, leftMs), signal).catch(() => {});
    }
  }

  /** Returns whether it has ended. */
  #look(): boolean {
    const { certFile, readiness, clock, log, onEnded } = this.#options;
    const leftMs = this.#endsAtMs - clock.nowMs();
    const endsAt = new Date(this.#endsAtMs).toISOString();
    if (leftMs <= 0) {
      const text = `the certificate in tls.certFile ${certFile} ended at ${endsAt}: renew it, and restart this process`;
      readiness.missing("certificate", text);
      log.error({ alert: "certificate_ended", certFile, endsAt }, text);
      onEnded(new InvalidStateError(text));
      return true;
    }
    readiness.met("certificate");
    if (leftMs > TELL_BEFORE_MS || clock.nowMs() - this.#toldAtMs < DAY_MS) return false;
    this.#toldAtMs = clock.nowMs();
    const days = Math.floor(leftMs / DAY_MS);
    const text = `the certificate in tls.certFile ${certFile} ends in ${days} days, at ${endsAt}: renew it, and restart`;
    log.warn({ alert: "certificate_ends", certFile, endsAt, days }, text);
    return false;
  }
}

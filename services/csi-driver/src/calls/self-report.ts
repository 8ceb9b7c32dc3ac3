import { randomUUID } from "node:crypto";
import { createConnection } from "node:net";
import { hostname } from "node:os";
import { knownAlert, type Logger, messageOf } from "@diskmesh/domain";
import { type Clock, type CsiDriverReport, REPORT_INTERVAL_MS, type Readiness } from "@diskmesh/service";

const TIMEOUT_MS = 3_000;

/** Sends a report to a process that watches this driver. */
export type SendReport = (report: CsiDriverReport, deadlineMs: number) => Promise<unknown>;

export interface SelfReportOptions {
  /** Socket on which the driver serves, which tells the drivers of a machine apart. */
  readonly socketPath: string;
  readonly sends: readonly SendReport[];
  readonly readiness: Pick<Readiness, "report">;
  /** Returns sentences about calls that take long. */
  readonly slow: () => readonly string[];
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Reports this process to the director and the agent of its host, because nothing can ask a driver: it serves only its
 * orchestrator. Without reports, they tell that it stands still.
 */
export class SelfReport {
  readonly #stop = new AbortController();
  readonly #startId = randomUUID();
  readonly #sending: Promise<unknown>;

  constructor(private readonly options: SelfReportOptions) {
    this.#sending = Promise.all(options.sends.map((send) => this.#run(send)));
  }

  /** Says that the process is stopped. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#sending;
    await Promise.all(this.options.sends.map((send) => this.#send(send, true)));
  }

  async #run(send: SendReport): Promise<void> {
    const { clock } = this.options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await this.#send(send, false);
      await clock.sleep(REPORT_INTERVAL_MS, signal).catch(() => undefined);
    }
  }

  async #send(send: SendReport, stops: boolean): Promise<void> {
    const { socketPath, readiness, slow, log } = this.options;
    const alerts = [...readiness.report().alerts].map(([name, { why }]) => `${why}: ${knownAlert(name).cure[0]}`);
    const driver = `${hostname()}:${socketPath}`;
    try {
      await send({ driver, startId: this.#startId, stops, warnings: [...alerts, ...slow()] }, TIMEOUT_MS);
    } catch (error) {
      log.debug({ error: messageOf(error) }, "driver report not sent");
    }
  }
}

/** Returns what sends reports to the agent that listens at the path. */
export function toAgent(path: string): SendReport {
  return (report, deadlineMs) =>
    new Promise<void>((resolve, reject) => {
      const socket = createConnection(path);
      socket.setTimeout(deadlineMs, () => socket.destroy(new Error("the agent does not take the report")));
      socket.once("error", reject).once("close", () => resolve());
      socket.end(`${JSON.stringify(report)}\n`);
    });
}

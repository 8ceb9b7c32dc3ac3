import type { CpiServiceDefinition } from "@diskmesh/api/cpi";
import { backoffMs, CancelledError, type Logger, messageOf } from "@diskmesh/domain";
import type { Client } from "@diskmesh/rpc";
import type { Clock } from "@diskmesh/service";
import { context, ROOT_CONTEXT } from "@opentelemetry/api";
import type { LogSink } from "../tasks/caller-signals.js";

type LogClient = Pick<Client<typeof CpiServiceDefinition>, "watchCpiLog">;

interface Listening {
  readonly sink: LogSink;
  holders: number;
  timer: NodeJS.Timeout | undefined;
}

export interface CpiLogsOptions {
  /** The log clients of all dispatchers. */
  readonly clients: readonly LogClient[];
  readonly directorId: string;
  readonly clock: Clock;
  readonly log: Pick<Logger, "debug">;
}

// Lines are collected this long after a release, because the last lines of a call may arrive after its answer.
const LINGER_MS = 250;

const BACKOFF = { minDelayMs: 100, maxDelayMs: 5_000 };

/**
 * Receives the log output of CPIs through one stream per dispatcher for all calls of this director, because a stream
 * per task would cost more than the rest of a short task. Log failures do not affect calls.
 */
export class CpiLogs {
  readonly #options: CpiLogsOptions;
  readonly #listening = new Map<string, Listening>();
  readonly #closed = new AbortController();
  readonly #reading = new Set<LogClient>();

  constructor(options: CpiLogsOptions) {
    this.#options = options;
  }

  /**
   * Starts to collect the lines of `logId`; must run before the call. The sink receives lines until shortly after the
   * release.
   */
  listen(logId: string, sink: LogSink): { release(): void } {
    const listening = this.#listening.get(logId) ?? { sink, holders: 0, timer: undefined };
    this.#listening.set(logId, listening);
    clearTimeout(listening.timer);
    listening.holders++;
    // The streams outlast the task that opened them, so they must not join the trace of that task.
    for (const client of this.#options.clients)
      if (!this.#reading.has(client)) void context.with(ROOT_CONTEXT, () => this.#read(client));
    return {
      release: () => {
        if (--listening.holders > 0) return;
        listening.timer = setTimeout(() => this.#listening.delete(logId), LINGER_MS);
        listening.timer.unref();
      },
    };
  }

  close(): void {
    this.#closed.abort(new CancelledError("the director stops"));
    for (const { timer } of this.#listening.values()) clearTimeout(timer);
    this.#listening.clear();
  }

  /** Reads the stream while a call listens. An open stream is kept for later calls. */
  async #read(client: LogClient): Promise<void> {
    const { clock, log } = this.#options;
    const { signal } = this.#closed;
    this.#reading.add(client);
    for (let failures = 0; this.#listening.size > 0 && !signal.aborted; failures++) {
      try {
        await this.#readStream(client, signal, () => {
          failures = 0;
        });
      } catch (error) {
        if (!signal.aborted) log.debug({ error: messageOf(error) }, "CPI log stream failed");
      }
      await clock.sleep(backoffMs(failures, BACKOFF), signal).catch(() => {});
    }
    this.#reading.delete(client);
  }

  async #readStream(client: LogClient, signal: AbortSignal, onLine: () => void): Promise<void> {
    const { directorId } = this.#options;
    for await (const { logId, line } of client.watchCpiLog({ directorId }, { signal })) {
      onLine();
      this.#listening.get(logId)?.sink.output("cpi", line);
    }
  }
}

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
  readonly random: () => number;
  readonly log: Pick<Logger, "debug">;
}

// The last lines of a call may come shortly after its answer; and the next call of the same task is often near.
const LINGER_MS = 250;

const BACKOFF = { minDelayMs: 100, maxDelayMs: 5_000 };

/**
 * Listens to what CPIs write, by one stream from each dispatcher for all calls of this director: one for each task would cost more than all
 * else that a short task asks of a CPI. It is about a log alone: when listening fails, the calls go on.
 */
export class CpiLogs {
  readonly #options: CpiLogsOptions;
  readonly #listening = new Map<string, Listening>();
  readonly #closed = new AbortController();
  readonly #reading = new Set<LogClient>();

  constructor(options: CpiLogsOptions) {
    this.#options = options;
  }

  /** Called before a call; its lines go to the sink until some time after the release. */
  listen(logId: string, sink: LogSink): { release(): void } {
    const listening = this.#listening.get(logId) ?? { sink, holders: 0, timer: undefined };
    this.#listening.set(logId, listening);
    clearTimeout(listening.timer);
    listening.holders++;
    // The streams are nobody's: they outlast the task that they were opened for, and that task's trace.
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

  /** Reads on while somebody listens; a stream that stands is kept for whoever listens next. */
  async #read(client: LogClient): Promise<void> {
    const { clock, random, log } = this.#options;
    const { signal } = this.#closed;
    this.#reading.add(client);
    for (let failures = 0; this.#listening.size > 0 && !signal.aborted; failures++) {
      try {
        await this.#readStream(client, signal, () => {
          failures = 0;
        });
      } catch (error) {
        if (!signal.aborted) log.debug({ error: messageOf(error) }, "cannot read the CPIs' log");
      }
      await clock.sleep(backoffMs(failures, BACKOFF, random()), signal).catch(() => {});
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

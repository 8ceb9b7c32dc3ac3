import type { CpiServiceDefinition } from "@diskmesh/api/cpi";
import { type Logger, messageOf } from "@diskmesh/domain";
import type { Client } from "@diskmesh/rpc";

/** Takes lines for people. */
export interface LogSink {
  /** "cpi": what a CPI wrote to stderr. "debug": what was asked of CPIs, and what came of it. */
  output(type: "cpi" | "debug", line: string): void;
}

interface Listening {
  readonly sink: LogSink;
  readonly abort: AbortController;
  holders: number;
  timer: NodeJS.Timeout | undefined;
}

// The last lines of a call may come shortly after its answer; and the next call of the same task is often near.
const LINGER_MS = 250;

/**
 * Listens to what CPIs write, with one stream per log id for all its calls. It is about a log alone: when listening
 * fails, the calls go on.
 */
export class CpiLogs {
  readonly #listening = new Map<string, Listening>();

  constructor(
    private readonly client: Pick<Client<typeof CpiServiceDefinition>, "watchCpiLog">,
    private readonly log: Pick<Logger, "debug">,
  ) {}

  /** Called before a call; its lines go to the sink until some time after the release. */
  listen(logId: string, sink: LogSink): { release(): void } {
    const listening = this.#listening.get(logId) ?? this.#start(logId, sink);
    clearTimeout(listening.timer);
    listening.holders++;
    return {
      release: () => {
        if (--listening.holders > 0) return;
        listening.timer = setTimeout(() => this.#end(logId, listening), LINGER_MS);
        listening.timer.unref();
      },
    };
  }

  close(): void {
    for (const [logId, listening] of this.#listening) this.#end(logId, listening);
  }

  #start(logId: string, sink: LogSink): Listening {
    const listening: Listening = { sink, abort: new AbortController(), holders: 0, timer: undefined };
    this.#listening.set(logId, listening);
    void this.#read(logId, listening)
      .catch((error: unknown) => {
        if (!listening.abort.signal.aborted)
          this.log.debug({ logId, error: messageOf(error) }, "cannot read a CPI log");
      })
      // So that the next call tries again.
      .finally(() => this.#end(logId, listening));
    return listening;
  }

  async #read(logId: string, { sink, abort }: Listening): Promise<void> {
    for await (const { line } of this.client.watchCpiLog({ logId }, { signal: abort.signal })) sink.output("cpi", line);
  }

  #end(logId: string, listening: Listening): void {
    clearTimeout(listening.timer);
    listening.abort.abort();
    if (this.#listening.get(logId) === listening) this.#listening.delete(logId);
  }
}

import { CancelledError, DomainError, UnavailableError } from "@diskmesh/domain";
import type { MethodDefinition } from "@diskmesh/rpc";
import type { SimProcess, Timeline } from "./timeline.js";

/** Items of one direction of a stream, in order, until it ends or fails. */
class Pipe<Item> implements AsyncIterable<Item> {
  readonly #items: Item[] = [];
  #ended = false;
  #failure: unknown;
  #wake: (() => void) | undefined;

  push(item: Item): void {
    if (this.#ended) return;
    this.#items.push(item);
    this.#wake?.();
  }

  /** Ends the stream. Items before a normal end are still read; items before a failure are lost. */
  end(failure?: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#failure = failure;
    if (failure !== undefined) this.#items.length = 0;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Item> {
    for (;;) {
      const [item] = this.#items.splice(0, 1);
      if (item !== undefined) yield item;
      else if (this.#failure !== undefined) throw this.#failure;
      else if (this.#ended) return;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }
}

type Handle = (requests: AsyncIterable<unknown>, signal: AbortSignal) => AsyncIterable<unknown>;

/**
 * A stream between two processes. Items arrive in order until it breaks. Each side notices the break separately, and
 * items in transit may still arrive before.
 */
export class SimStream {
  readonly responses = new Pipe<Buffer>();
  readonly #requests = new Pipe<Buffer>();
  readonly #call = new AbortController();
  #ended = false;
  #clientReadsUntilMs = 0;
  #serverReadsUntilMs = 0;

  constructor(
    private readonly timeline: Timeline,
    private readonly client: SimProcess,
    private readonly server: SimProcess,
    private readonly delayMs: () => number,
  ) {}

  get ended(): boolean {
    return this.#ended;
  }

  /** Breaks the stream. The client notices at once, the server some time later. */
  break(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.responses.end(new UnavailableError(`the stream to ${this.server.name} broke`, { outcome: "unknown" }));
    const lost = new CancelledError("the stream's connection was lost");
    this.timeline.after(this.delayMs(), this.server, "", () => {
      this.#requests.end(lost);
      this.#call.abort(lost);
    });
  }

  /** Ends the stream because the server's process has ended. */
  readonly cutByServer = (): void => {
    if (this.#ended) return;
    this.#ended = true;
    const lost = new UnavailableError(`the stream to ${this.server.name} was lost`, { outcome: "unknown" });
    this.timeline.after(this.delayMs(), this.client, "", () => this.responses.end(lost));
  };

  run(requests: AsyncIterable<unknown>, method: MethodDefinition, handle: Handle): void {
    void this.#pumpRequests(requests, method);
    void this.#pumpResponses(method, handle);
  }

  async #pumpRequests(requests: AsyncIterable<unknown>, method: MethodDefinition): Promise<void> {
    for await (const request of requests) {
      if (this.#ended) return;
      this.#toServer(method.requestSerialize(request));
    }
    if (!this.#ended) this.#toServer(undefined);
  }

  #toServer(bytes: Buffer | undefined): void {
    this.#serverReadsUntilMs = Math.max(this.#serverReadsUntilMs, this.timeline.nowMs + this.delayMs());
    this.timeline.after(this.#serverReadsUntilMs - this.timeline.nowMs, this.server, "", () => {
      if (bytes === undefined) this.#requests.end();
      else this.#requests.push(bytes);
    });
  }

  #toClient(arrive: () => void): void {
    this.#clientReadsUntilMs = Math.max(this.#clientReadsUntilMs, this.timeline.nowMs + this.delayMs());
    this.timeline.after(this.#clientReadsUntilMs - this.timeline.nowMs, this.client, "", arrive);
  }

  async #pumpResponses(method: MethodDefinition, handle: Handle): Promise<void> {
    try {
      for await (const response of handle(decoded(this.#requests, method), this.#call.signal)) {
        if (this.#ended || this.#call.signal.aborted) return;
        const bytes = method.responseSerialize(response);
        this.#toClient(() => this.responses.push(bytes));
      }
      this.#toClient(() => this.responses.end());
    } catch (error) {
      const failure = error instanceof DomainError ? error : new UnavailableError(String(error));
      this.#toClient(() => this.responses.end(failure));
    }
  }
}

async function* decoded(bytes: AsyncIterable<Buffer>, method: MethodDefinition): AsyncGenerator<unknown> {
  for await (const message of bytes) yield method.requestDeserialize(message);
}

import { setTimeout as delay } from "node:timers/promises";
import { backoffMs, DomainError, hostPortOf } from "@diskmesh/domain";
import {
  type CallOptions,
  type Client,
  type MethodDefinition,
  methodsOf,
  type ServiceDefinition,
} from "../call/definition.js";
import { ServedElsewhereError, StreamRefusedError } from "../errors/error-of-status.js";
import { ClientChannel, type ClientOptions, closedError } from "./client.js";

/**
 * Makes a client. It connects at the first call and reconnects automatically. With several servers it finds the leader:
 * a call that certainly had no effect is repeated on another server until its deadline.
 */
export function createClient<Definition extends ServiceDefinition>(
  definition: Definition,
  options: ClientOptions,
): Client<Definition> {
  const client = new FollowingClient(options);
  const methods: Record<string, unknown> = { close: () => client.close() };
  for (const [name, method] of methodsOf(definition)) methods[name] = client.methodOf(method);
  return methods as Client<Definition>;
}

/**
 * Minimum remaining time for another attempt. A busy server answers within it; an attempt that the deadline ends would
 * only make the outcome unknown.
 */
const SHORTEST_TRY_MS = 500;
/** Timeout of a connection attempt, after which the next server is tried. */
const CONNECT_TIMEOUT_MS = 2_000;

/**
 * Delay after a round in which no server led. Short for the caller, and long enough for the servers when thousands of
 * callers retry.
 */
const ROUND_BACKOFF = { minDelayMs: 100, maxDelayMs: 500 };

/** Maximum number of addresses learned from servers, besides the configured ones. */
const LEARNED_MAX = 8;

class FollowingClient {
  readonly #options: ClientOptions;
  readonly #addresses: readonly string[];
  readonly #channels = new Map<string, ClientChannel>();
  /** Address of the server that answered last. */
  #current: string;
  #isClosed = false;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#addresses = typeof options.address === "string" ? [options.address] : [...new Set(options.address)];
    this.#current = this.#addresses[0] ?? "";
    // Opened now instead of at the first call, so that unreadable TLS files are reported at the start.
    this.#channelOf(this.#current);
  }

  /** Ends calls that are searching for the leader. Calls that were sent are completed. */
  close(): void {
    this.#isClosed = true;
    for (const channel of this.#channels.values()) channel.close();
  }

  methodOf(method: MethodDefinition): unknown {
    if (method.requestStream)
      return (requests: AsyncIterable<unknown>, call?: CallOptions) => this.#clientStream(method, requests, call);
    return method.responseStream
      ? (request: unknown, call?: CallOptions) => this.#serverStream(method, request, call)
      : (request: unknown, call?: CallOptions) => this.#unary(method, request, call);
  }

  async #unary(method: MethodDefinition, request: unknown, call: CallOptions = {}): Promise<unknown> {
    const search = new Search(call.deadlineMs ?? this.#options.defaultDeadlineMs);
    for (let address = this.#current; ; ) {
      try {
        const channel = await this.#connected(address, search);
        const response = await channel.unary(method, request, { ...call, deadlineMs: search.leftMs() });
        this.#current = address;
        return response;
      } catch (error) {
        address = await this.#next(address, error, search, call.signal);
      }
    }
  }

  async *#serverStream(method: MethodDefinition, request: unknown, call: CallOptions = {}): AsyncGenerator<unknown> {
    const search = new Search(call.deadlineMs ?? this.#options.defaultDeadlineMs);
    for (let address = this.#current; ; ) {
      let begun = false;
      try {
        const channel = await this.#connected(address, search, call);
        const left = call.deadlineMs === undefined ? {} : { deadlineMs: search.leftMs() };
        for await (const response of channel.serverStream(method, request, { ...call, ...left })) {
          if (!begun) this.#current = address;
          begun = true;
          yield response;
        }
        return;
      } catch (error) {
        // A retry would yield items again that the caller has already read.
        if (begun) throw error;
        address = await this.#next(address, error, search, call.signal);
      }
    }
  }

  /** The request stream can be read only once, so a failed call is not retried; later calls use another server. */
  async #clientStream(method: MethodDefinition, requests: AsyncIterable<unknown>, call?: CallOptions) {
    const address = this.#current;
    try {
      return await this.#channelOf(address).clientStream(method, requests, call);
    } catch (error) {
      this.#leave(address, error);
      throw error;
    }
  }

  /**
   * Returns the address for a retry of a call that failed at `address`; throws the error when a retry cannot help or no
   * time is left.
   */
  async #next(address: string, error: unknown, search: Search, signal: AbortSignal | undefined): Promise<string> {
    if (error instanceof StreamRefusedError && search.refusals++ < MAX_REFUSALS && search.leftMs() > 0) return address;
    this.#leave(address, error);
    if (!(error instanceof ServedElsewhereError)) throw error;
    if (!error.answered) this.#options.onUnreached?.(address, error);
    search.tried.add(address);
    const leader = leaderIn(error);
    const next = [leader, ...this.#addresses].find((other) => other !== undefined && !search.tried.has(other));
    if (next !== undefined && search.leftMs() > SHORTEST_TRY_MS) return next;
    // With a single unreachable server there is nothing to search, so the caller gets the error.
    if (this.#addresses.length === 1 && leader === undefined) throw error;
    const pauseMs = backoffMs(search.rounds++, ROUND_BACKOFF, Math.random());
    if (pauseMs + SHORTEST_TRY_MS >= search.leftMs()) throw error;
    search.tried.clear();
    await delay(pauseMs, undefined, signal ? { signal } : {}).catch(() => {});
    // After an abort, the next attempt fails with CANCELLED.
    return leader ?? (this.#addresses[0] as string);
  }

  /** Makes later calls use another server. */
  #leave(address: string, error: unknown): void {
    if (this.#current !== address) return;
    if (error instanceof ServedElsewhereError && leaderIn(error) !== undefined) {
      this.#current = leaderIn(error) as string;
    } else if (error instanceof ServedElsewhereError || (error instanceof DomainError && error.outcome === "unknown")) {
      // A server that hangs names no leader, so the next configured address is used. If the server was only slow,
      // another server redirects to it.
      const index = this.#addresses.indexOf(address);
      this.#current = this.#addresses[(index + 1) % this.#addresses.length] as string;
    }
  }

  /**
   * Returns the channel of a server. Waits for the connection when other servers could serve the call. Also waits for
   * it when `stream` is given, the options of a streaming call: the call may have no deadline, but the attempt to
   * connect needs a timeout.
   */
  async #connected(address: string, search: Search, stream?: CallOptions): Promise<ClientChannel> {
    const channel = this.#channelOf(address);
    const isOneOfSeveral = this.#addresses.length > 1 || address !== this.#addresses[0];
    const timeoutMs = Math.min(isOneOfSeveral ? CONNECT_TIMEOUT_MS : Number.POSITIVE_INFINITY, search.leftMs());
    if (isOneOfSeveral || stream !== undefined) await channel.connect(Math.max(0, timeoutMs), stream?.signal);
    return channel;
  }

  #channelOf(address: string): ClientChannel {
    if (this.#isClosed) throw closedError(address);
    let channel = this.#channels.get(address);
    if (channel === undefined) {
      this.#forgetTold();
      channel = new ClientChannel({ ...this.#options, address });
      this.#channels.set(address, channel);
    }
    return channel;
  }

  #forgetTold(): void {
    const learned = [...this.#channels.keys()].filter((known) => !this.#addresses.includes(known));
    if (learned.length < LEARNED_MAX) return;
    const oldest = learned.find((known) => known !== this.#current) as string;
    this.#channels.get(oldest)?.close();
    this.#channels.delete(oldest);
  }
}

/**
 * Number of refused streams after which a server counts as failing. One refusal is normal when a call crosses the close
 * of its connection.
 */
const MAX_REFUSALS = 3;

/** State of one call while it searches for the leader. */
class Search {
  /** Addresses tried in this round. */
  readonly tried = new Set<string>();
  rounds = 0;
  refusals = 0;
  #deadlineAtMs: number;

  constructor(deadlineMs: number) {
    this.#deadlineAtMs = performance.now() + deadlineMs;
  }

  leftMs(): number {
    return Math.ceil(this.#deadlineAtMs - performance.now());
  }
}

/**
 * Returns the leader's address if it has the form host:port. The address comes from the server and could otherwise
 * select another transport of grpc-js.
 */
function leaderIn(error: ServedElsewhereError): string | undefined {
  return hostPortOf(error.leaderAddress) && error.leaderAddress;
}

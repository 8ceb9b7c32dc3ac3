import { constants, type ServerHttp2Stream } from "node:http2";
import { status } from "@grpc/grpc-js";

const SWEEP_INTERVAL_MS = 500;

export interface SilenceLimits {
  readonly firstMessageTimeoutMs: number;
  readonly maxSilentStreamsPerPeer: number;
}

/**
 * Open streams whose first message is incomplete. No call limit counts them yet, but each uses memory. Timeouts count
 * sweeps (`#sweeps`), so that stalls of the event loop do not count.
 */
export class SilentStreams {
  /** Streams in the order in which they were opened. */
  readonly #streams = new Map<ServerHttp2Stream, Opened>();
  readonly #countByPeer = new Map<string, number>();
  readonly #sweepsAllowed: number;
  #sweeps = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly limits: SilenceLimits) {
    this.#sweepsAllowed = Math.ceil(limits.firstMessageTimeoutMs / SWEEP_INTERVAL_MS) + 1;
  }

  opened(stream: ServerHttp2Stream, peer: string): void {
    const count = this.#countByPeer.get(peer) ?? 0;
    this.#countByPeer.set(peer, count + 1);
    if (count >= this.limits.maxSilentStreamsPerPeer) this.#makeRoom(peer);
    this.#streams.set(stream, { peer, sweep: this.#sweeps });
    this.#timer ??= setInterval(() => this.#sweep(), SWEEP_INTERVAL_MS).unref();
  }

  /** Forgets a stream whose first message has arrived. */
  heard(stream: ServerHttp2Stream): void {
    const opened = this.#streams.get(stream);
    if (!opened) return;
    this.#streams.delete(stream);
    const left = (this.#countByPeer.get(opened.peer) ?? 1) - 1;
    if (left > 0) this.#countByPeer.set(opened.peer, left);
    else this.#countByPeer.delete(opened.peer);
  }

  /**
   * Ends the peer's oldest silent stream that was opened before the last sweep. Newer ones stay: many calls at once are
   * normal, and their messages arrive within the turn.
   */
  #makeRoom(peer: string): void {
    for (const [stream, opened] of this.#streams) {
      if (opened.sweep === this.#sweeps) return;
      if (opened.peer !== peer) continue;
      this.heard(stream);
      refuse(stream, status.RESOURCE_EXHAUSTED, "too many calls without a message (maxSilentStreamsPerPeer)");
      return;
    }
  }

  #sweep(): void {
    this.#sweeps += 1;
    for (const [stream, { sweep }] of this.#streams) {
      const overdue = this.#sweeps - sweep > this.#sweepsAllowed;
      if (!overdue && !stream.destroyed) continue;
      this.heard(stream);
      if (overdue)
        refuse(stream, status.DEADLINE_EXCEEDED, "no complete message arrived in time (firstMessageTimeoutMs)");
    }
    if (this.#streams.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

interface Opened {
  readonly peer: string;
  /** Value of `#sweeps` when the stream was opened. */
  readonly sweep: number;
}

/**
 * Answers a stream with a status. grpc requires a percent-encoded message, so `message` must be plain ASCII without
 * "%".
 */
function refuse(stream: ServerHttp2Stream, code: status, message: string): void {
  if (stream.destroyed || stream.closed) return;
  if (!stream.headersSent)
    stream.respond(
      {
        ":status": constants.HTTP_STATUS_OK,
        "content-type": "application/grpc+proto",
        "grpc-status": code,
        "grpc-message": message,
      },
      { endStream: true },
    );
  stream.close(constants.NGHTTP2_CANCEL);
}

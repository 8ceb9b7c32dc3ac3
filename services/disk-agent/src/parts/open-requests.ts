import type { Clock } from "@diskmesh/service";
import type { OpenSince } from "../model/io-queue.js";

interface Request {
  readonly sinceMs: number;
  isThrottled: boolean;
}

/** Requests of a disk, or of a part of it, that are not answered. */
export class OpenRequests {
  /** The oldest first. */
  readonly #open = new Set<Request>();

  constructor(private readonly clock: Pick<Clock, "monotonicMs">) {}

  /** Counts a request until it is answered. Its I/O begins once it is admitted, at once for undefined. */
  async during<Answer>(admitted: Promise<void> | undefined, io: () => Promise<Answer>): Promise<Answer> {
    const request = { sinceMs: this.clock.monotonicMs(), isThrottled: admitted !== undefined };
    this.#open.add(request);
    try {
      if (admitted !== undefined) await admitted;
      request.isThrottled = false;
      return await io();
    } finally {
      this.#open.delete(request);
    }
  }

  get now(): OpenSince & { readonly isOldestThrottled: boolean } {
    const [oldest] = this.#open;
    return {
      count: this.#open.size,
      oldestSinceMs: oldest?.sinceMs,
      isOldestThrottled: oldest?.isThrottled ?? false,
    };
  }
}

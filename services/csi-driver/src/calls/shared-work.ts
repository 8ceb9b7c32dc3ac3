import { setTimeout as sleep } from "node:timers/promises";
import { AbortedError } from "@diskmesh/domain";
import type { SocketCall } from "@diskmesh/rpc";
import type { RunningCall } from "../model/slow-work.js";

interface Running extends RunningCall {
  /** The request as text, which is equal for equal requests. */
  readonly request: string;
  /** Monotonic time of the start. */
  readonly startedMs: number;
  readonly done: Promise<unknown>;
}

/** Bound of calls without a deadline. */
const DEFAULT_WAIT_MS = 120_000;
/** Part of the remaining time, and its maximum, that is left for the answer to arrive before the client's deadline. */
const ANSWER_PART = 0.1;
const ANSWER_MS = 500;
/** Part of the remaining time, and its maximum, that is left for the question what the volume waits for. */
const WHY_PART = 0.2;
const WHY_MS = 2_000;

/**
 * Runs the changes of each volume one at a time. A repeated request joins the work that its predecessor began; another
 * request waits for it. Work continues after its caller's deadline.
 */
export class SharedWork {
  readonly #running = new Map<string, Running>();

  /** `why` returns what a volume waits for, as a sentence; undefined when nothing is known. */
  constructor(private readonly why: (volumeId: string) => Promise<string | undefined> = async () => undefined) {}

  get running(): Iterable<RunningCall> {
    return this.#running.values();
  }

  /** Throws AbortedError shortly before the call's deadline, with the running work and what the volume waits for. */
  async run<Result>(
    volumeId: string,
    method: string,
    request: object,
    call: SocketCall,
    work: () => Promise<Result>,
  ): Promise<Result> {
    const waitMs = waitMsOf(call);
    const untilMs = performance.now() + waitMs;
    const askAtMs = untilMs - Math.min(WHY_MS, waitMs * WHY_PART);
    const within = { askAtMs, untilMs };
    const text = JSON.stringify([method, { ...request, secrets: undefined }], sortedKeys);
    for (;;) {
      const running = this.#running.get(volumeId);
      if (running === undefined) break;
      if (running.request === text) return this.#within(within, running) as Promise<Result>;
      await this.#within(within, { ...running, done: running.done.catch(() => {}) });
    }
    const done = work().finally(() => this.#running.delete(volumeId));
    const startedAtMs = Date.now();
    const running = { request: text, method, volumeId, startedAtMs, startedMs: performance.now(), done };
    this.#running.set(volumeId, running);
    return this.#within(within, running) as Promise<Result>;
  }

  async #within({ askAtMs, untilMs }: Limits, { method, volumeId, startedMs, done }: Running): Promise<unknown> {
    const over = new AbortController();
    const sleepUntil = (ms: number) => sleep(Math.max(0, ms - performance.now()), undefined, { signal: over.signal });
    const late = async (): Promise<never> => {
      await sleepUntil(askAtMs);
      let why = "";
      this.why(volumeId).then(
        (answer = "") => {
          why = answer && `: ${answer}`;
        },
        () => {},
      );
      await sleepUntil(untilMs);
      const seconds = Math.round((performance.now() - startedMs) / 1_000);
      const text = `${method} of volume ${volumeId} has been running for ${seconds} s${why}; repeat the request to wait for its end`;
      throw new AbortedError(text, { about: { volume_id: volumeId } });
    };
    try {
      return await Promise.race([done, late()]);
    } finally {
      over.abort();
    }
  }
}

/** Monotonic times: of the question what a volume waits for, and of the answer to the caller. */
interface Limits {
  readonly askAtMs: number;
  readonly untilMs: number;
}

function waitMsOf({ deadlineAtMs }: SocketCall): number {
  const leftMs = Math.min(deadlineAtMs - Date.now(), DEFAULT_WAIT_MS);
  return leftMs - Math.min(ANSWER_MS, leftMs * ANSWER_PART);
}

/** Sorts the keys of objects, because equal requests may have their map entries in another order. */
function sortedKeys(_: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

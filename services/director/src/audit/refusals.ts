import { isRefusal } from "@diskmesh/domain";
import { type Clock, shownRequest } from "@diskmesh/service";
import { type Asking, askerOf } from "./asker.js";
import type { Events } from "./events.js";

/**
 * Maximum number of refusals recorded per minute. Further refusals are only logged, so that a caller that retries does
 * not displace all other events.
 */
const MAX_PER_MINUTE = 60;
const MINUTE_MS = 60_000;
const MAX_SHOWN_LENGTH = 1_000;

/** Records an event for each refused call that would have changed something. */
export class Refusals {
  #minuteBeganMs = Number.NEGATIVE_INFINITY;
  #inMinute = 0;

  constructor(
    private readonly events: Pick<Events, "record">,
    private readonly clock: Pick<Clock, "monotonicMs">,
  ) {}

  /** Records a refused call. Ignores other errors. */
  note(method: string, call: Asking, request: unknown, error: unknown): void {
    if (!isRefusal(error) || !this.#hasRoom()) return;
    const { message, reason: answer } = error;
    const shown = Object.entries(shownRequest(request) ?? {}).map(([name, value]) => [name, textOf(value)]);
    const origin = { ...askerOf(call), context: Object.fromEntries(shown), answer, error: message };
    void this.events.record({ action: "refuse", objectType: "call", objectName: method }, origin);
  }

  #hasRoom(): boolean {
    const nowMs = this.clock.monotonicMs();
    if (nowMs - this.#minuteBeganMs >= MINUTE_MS) {
      this.#minuteBeganMs = nowMs;
      this.#inMinute = 0;
    }
    this.#inMinute += 1;
    return this.#inMinute <= MAX_PER_MINUTE;
  }
}

function textOf(value: unknown): string {
  return (typeof value === "string" ? value : JSON.stringify(value)).slice(0, MAX_SHOWN_LENGTH);
}

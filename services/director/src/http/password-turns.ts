import { ResourceExhaustedError } from "@diskmesh/domain";
import type { HttpConfig } from "./http-config.js";

type Limits = Pick<HttpConfig, "maxConcurrentPasswordChecks" | "maxWaitingPasswordChecks">;

interface Place {
  readonly start: () => void;
  readonly refuse: (error: Error) => void;
}

/**
 * Whose password is checked next. Networks take turns, and when all places are taken the one that has most of them gives
 * one up: nobody is kept out by what another sends.
 */
export class PasswordTurns {
  #running = 0;
  #waitingCount = 0;
  /** By network, the one whose turn is next first; those of each in the order in which they came. */
  readonly #waiting = new Map<string, Place[]>();

  constructor(private readonly limits: Limits) {}

  /** Resolves with what ends the turn. Throws ResourceExhaustedError when there is no place, or the signal's reason. */
  async take(network: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#running >= this.limits.maxConcurrentPasswordChecks) await this.#wait(network, signal);
    else this.#running += 1;
    return () => this.#startNext();
  }

  #wait(network: string, signal: AbortSignal): Promise<void> {
    if (this.#waitingCount >= this.limits.maxWaitingPasswordChecks) this.#makeRoom(network);
    return new Promise((resolve, reject) => {
      const leave = (): void => place.refuse(signal.reason);
      const place: Place = {
        start: () => {
          signal.removeEventListener("abort", leave);
          resolve();
        },
        refuse: (error) => {
          signal.removeEventListener("abort", leave);
          this.#remove(network, place);
          reject(error);
        },
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.set(network, [...(this.#waiting.get(network) ?? []), place]);
      this.#waitingCount += 1;
    });
  }

  /** Throws unless another network has more than this one will have. */
  #makeRoom(network: string): void {
    const error = new ResourceExhaustedError(
      "too many passwords wait to be checked (http.maxWaitingPasswordChecks): try again",
      { retryAfterMs: 1_000 },
    );
    const most = [...this.#waiting.values()].reduce((one, other) => (other.length > one.length ? other : one), []);
    if (most.length <= (this.#waiting.get(network)?.length ?? 0) + 1) throw error;
    most.at(-1)?.refuse(error);
  }

  #startNext(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#running -= 1;
      return;
    }
    const [network, [place, ...rest]] = next;
    this.#waitingCount -= 1;
    // Behind all others.
    this.#waiting.delete(network);
    if (rest.length > 0) this.#waiting.set(network, rest);
    place?.start();
  }

  #remove(network: string, place: Place): void {
    const left = (this.#waiting.get(network) ?? []).filter((other) => other !== place);
    if (left.length === 0) this.#waiting.delete(network);
    else this.#waiting.set(network, left);
    this.#waitingCount -= 1;
  }
}

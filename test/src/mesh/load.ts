import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";

/** Long enough for one round on a machine that has no time for it. */
const ROUND_TIMEOUT_MS = 120_000;
/** Without it several would keep the processors from what they are to be beside. */
const PAUSE_MS = 200;

/** Does the same again and again, and notes what fails. */
export class Load {
  readonly failures: string[] = [];
  #rounds = 0;
  #isStopped = false;
  readonly #running: Promise<void>;

  constructor(private readonly round: (number: number) => Promise<unknown>) {
    this.#running = this.#run();
  }

  get rounds(): number {
    return this.#rounds;
  }

  /** Resolves when a round that begins from now on has ended. */
  async anotherRound(): Promise<void> {
    const wanted = this.#rounds + 2;
    await eventually(() => this.#rounds >= wanted, { timeoutMs: ROUND_TIMEOUT_MS });
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      await this.round(this.#rounds).catch((error) => this.failures.push(messageOf(error)));
      this.#rounds += 1;
      await delay(PAUSE_MS);
    }
  }
}

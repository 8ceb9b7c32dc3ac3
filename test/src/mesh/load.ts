import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";

/** Pause in ms between rounds, which leaves CPU time for other processes. */
const PAUSE_MS = 200;

/** Repeats an action continuously, and records its failures. */
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

  /** Resolves when a round has ended that began after this call. */
  async anotherRound(): Promise<void> {
    const wanted = this.#rounds + 2;
    await eventually(() => this.#rounds >= wanted);
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

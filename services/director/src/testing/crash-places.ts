import { appendFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PING = "agent ping";

/**
 * The places at which a director can be killed: before each durable write and each outside call, in the order in which it
 * comes to them. A test arms one of them by its number; the director under test, `crashing-main.ts`, counts.
 */
export class CrashPlaces {
  readonly #orderFile: string;
  readonly #passedFile: string;

  constructor(folder: string) {
    this.#orderFile = join(folder, "crash-at");
    this.#passedFile = join(folder, "crash-places-passed");
  }

  /** The director is killed at the so-manieth place that it comes to from now on. */
  arm(number: number): void {
    rmSync(this.#passedFile, { force: true });
    writeFileSync(this.#orderFile, String(number));
  }

  /** Returns the places that it came to, the one where it was killed included. */
  disarm(): string[] {
    rmSync(this.#orderFile, { force: true });
    return this.#passed();
  }

  /** In the director: it has come to a place, and goes on unless it is the one. */
  pass(name: string): void {
    const number = Number(read(this.#orderFile));
    if (number === 0) return;
    const passed = this.#passed();
    // An agent is asked until it answers, as often as it takes: that is one place.
    if (name === PING && passed.at(-1) === name) return;
    appendFileSync(this.#passedFile, `${name}\n`);
    if (passed.length + 1 >= number) process.kill(process.pid, "SIGKILL");
  }

  #passed(): string[] {
    return read(this.#passedFile).split("\n").slice(0, -1);
  }
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

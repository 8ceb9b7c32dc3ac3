import { appendFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PING = "agent ping";

/**
 * The crash points of a director: before each durable write and each outgoing call, numbered in the order in which the
 * director reaches them. A test arms a number. The director under test, `crashing-main.ts`, counts and kills itself at
 * the armed number.
 */
export class CrashPlaces {
  readonly #orderFile: string;
  readonly #passedFile: string;

  constructor(folder: string) {
    this.#orderFile = join(folder, "crash-at");
    this.#passedFile = join(folder, "crash-places-passed");
  }

  /** Makes the director kill itself at the crash point with this number, counted from now on. */
  arm(number: number): void {
    rmSync(this.#passedFile, { force: true });
    writeFileSync(this.#orderFile, String(number));
  }

  /** Returns the crash points that the director has reached, including the point of its kill. */
  disarm(): string[] {
    rmSync(this.#orderFile, { force: true });
    return this.#passed();
  }

  /** Called by the director at each crash point. Kills the process at the armed number. */
  pass(name: string): void {
    const number = Number(read(this.#orderFile));
    if (number === 0) return;
    const passed = this.#passed();
    // Repeated pings of an agent count as one crash point, because their number varies.
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

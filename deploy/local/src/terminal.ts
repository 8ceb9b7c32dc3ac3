import type { WriteStream } from "node:tty";

/** Prints lines: coloured on a terminal, plain elsewhere. */
export class Terminal {
  private readonly startedMs = performance.now();
  private readonly colours: boolean;

  constructor(private readonly out: WriteStream | NodeJS.WritableStream = process.stdout) {
    this.colours = "isTTY" in out && out.isTTY && process.env.NO_COLOR === undefined && process.env.CI === undefined;
  }

  line(text = ""): void {
    this.out.write(`${text}\n`);
  }

  /** Runs a step of the story and prints its end time, result and duration. */
  async step<T>(title: string, step: () => Promise<T>, describe: (result: T) => string): Promise<T> {
    const startedMs = performance.now();
    try {
      const result = await step();
      this.done(`${title}: ${describe(result)} (${seconds(performance.now() - startedMs)} s)`);
      return result;
    } catch (error) {
      this.mark("31", "FAILED", `${title} (${seconds(performance.now() - startedMs)} s)`);
      throw error;
    }
  }

  /** Prints a success. */
  done(text: string): void {
    this.mark("32", "ok", text);
  }

  /** Prints an event that belongs to no step. */
  note(text: string): void {
    this.mark("33", "note", text);
  }

  private mark(colour: string, word: string, text: string): void {
    const shown = this.colours ? `\x1b[${colour}m${word}\x1b[0m` : word;
    this.line(`[${seconds(performance.now() - this.startedMs).padStart(6)} s] ${shown}  ${text}`);
  }
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(2);
}

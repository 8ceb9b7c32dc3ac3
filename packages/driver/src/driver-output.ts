import type { Readable } from "node:stream";
import type { Logger, Redactor } from "@diskmesh/domain";
import type { DriverLimits } from "./limits.js";

export interface DriverOutputOptions {
  readonly limits: Pick<DriverLimits, "maxOutputBytesPerSecond" | "maxLogLinesPerSecond">;
  readonly log: Pick<Logger, "info">;
  /** Returns the redactor of the calls' secret arguments. */
  readonly redactor: () => Redactor;
  readonly onFlood: (reason: string) => void;
}

const MAX_LINE_LENGTH = 1_000;
const TAIL_LENGTH = 4_096;
const SECOND_MS = 1_000;

/** Logs a driver's standard output and error, rate-limited. */
export class DriverOutput {
  readonly #options: DriverOutputOptions;
  #secondBeganMs = Number.NEGATIVE_INFINITY;
  #bytes = 0;
  #lines = 0;
  #suppressedLines = 0;
  /** End of the output, in which the host looks for V8's out-of-memory message. */
  tail = "";

  constructor(options: DriverOutputOptions) {
    this.#options = options;
  }

  read(stream: Readable): void {
    let rest = "";
    const { maxOutputBytesPerSecond } = this.#options.limits;
    stream.on("error", () => undefined);
    // Decodes across chunks, because a chunk may end within a character of a secret.
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => {
      this.#turn();
      this.#bytes += Buffer.byteLength(text);
      if (this.#bytes > maxOutputBytesPerSecond) {
        stream.destroy();
        this.#options.onFlood(`it wrote more than ${maxOutputBytesPerSecond} bytes within a second`);
        return;
      }
      this.tail = (this.tail + text).slice(-TAIL_LENGTH);
      const lines = (rest + text).split("\n");
      rest = (lines.pop() ?? "").slice(0, MAX_LINE_LENGTH);
      for (const line of lines) this.#line(line);
    });
    stream.on("end", () => rest !== "" && this.#line(rest));
  }

  #turn(): void {
    const nowMs = performance.now();
    if (nowMs - this.#secondBeganMs < SECOND_MS) return;
    this.#secondBeganMs = nowMs;
    this.#bytes = 0;
    this.#lines = 0;
  }

  #line(line: string): void {
    this.#turn();
    this.#lines += 1;
    if (this.#lines > this.#options.limits.maxLogLinesPerSecond) {
      this.#suppressedLines += 1;
      return;
    }
    const redactor = this.#options.redactor();
    const shown =
      line.length < MAX_LINE_LENGTH ? redactor.text(line) : redactor.beginning(line.slice(0, MAX_LINE_LENGTH));
    const printed = shown.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ");
    const suppressed = this.#suppressedLines > 0 && { suppressedLines: this.#suppressedLines };
    this.#options.log.info({ line: printed, ...suppressed }, "driver printed a line");
    this.#suppressedLines = 0;
  }
}

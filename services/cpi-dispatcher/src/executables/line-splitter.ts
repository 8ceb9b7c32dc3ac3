import { StringDecoder } from "node:string_decoder";

export interface LineLimits {
  /** Maximum characters of a line; the rest is dropped. */
  readonly maxLineLength: number;
  /** Maximum characters in total. A line shorter than 80 counts as 80, because forwarding it costs as much. */
  readonly maxTotalLength: number;
}

const SHORT_LINE_LENGTH = 80;

/** Splits a byte stream into lines and ignores input beyond the limits. */
export class LineSplitter {
  readonly #decoder = new StringDecoder("utf8");
  #rest = "";
  #isCut = false;
  #totalLength = 0;
  #isFull = false;

  constructor(
    private readonly limits: LineLimits,
    private readonly onLine: (line: string, isCut: boolean) => void,
  ) {}

  write(bytes: Buffer): void {
    if (this.#isFull) return;
    const lines = this.#decoder.write(bytes).split("\n");
    for (const [index, line] of lines.entries()) {
      const room = this.limits.maxLineLength - this.#rest.length;
      if (room > 0) this.#rest += line.slice(0, room);
      if (line.length > room) this.#isCut = true;
      if (index < lines.length - 1) this.#emit();
    }
  }

  end(): void {
    // The writer may have been killed in the middle of the line.
    this.#isCut = true;
    if (this.#rest !== "") this.#emit();
  }

  #emit(): void {
    const line = this.#rest.replace(/\r$/, "");
    const isCut = this.#isCut;
    this.#rest = "";
    this.#isCut = false;
    if (this.#isFull) return;
    this.#totalLength += Math.max(line.length + 1, SHORT_LINE_LENGTH);
    if (this.#totalLength > this.limits.maxTotalLength) {
      this.#isFull = true;
      this.onLine(`[the rest of the log is dropped: more than ${this.limits.maxTotalLength} characters]`, false);
      return;
    }
    this.onLine(line, isCut);
  }
}

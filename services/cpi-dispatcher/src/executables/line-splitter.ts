import { StringDecoder } from "node:string_decoder";

export interface LineLimits {
  /** Longest line kept, in characters; the rest of it is dropped. */
  readonly maxLineLength: number;
  /** All that is kept, in characters; a short line counts as one of 80, as it costs as much to pass on. */
  readonly maxTotalLength: number;
}

const SHORT_LINE_LENGTH = 80;

/** Cuts what arrives into lines, and stops listening when it is too much. */
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
    // The writer may have been killed in the middle of a line.
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

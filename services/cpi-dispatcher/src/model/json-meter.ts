export interface JsonLimits {
  /** Lists and objects within each other. */
  readonly maxDepth: number;
  /** Values in all, those within others included. */
  readonly maxValues: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Measures a JSON text while it arrives, so that one that would cost too much is never parsed: ten bytes of nesting become
 * a kilobyte of memory. It does not check the text otherwise.
 */
export class JsonMeter {
  #depth = 0;
  #values = 1;
  #isInString = false;
  #isEscaped = false;

  constructor(private readonly limits: JsonLimits) {}

  /** Takes the next bytes of the text. Says what is too much, if anything is. */
  add(bytes: Uint8Array): "depth" | "values" | undefined {
    const { maxDepth, maxValues } = this.limits;
    for (const byte of bytes) {
      if (this.#isInString) this.#addToString(byte);
      else if (byte === QUOTE) this.#isInString = true;
      else if (isOpening(byte)) {
        this.#values++;
        if (++this.#depth > maxDepth) return "depth";
      } else if (isClosing(byte)) this.#depth--;
      else if (byte === COMMA) this.#values++;
      if (this.#values > maxValues) return "values";
    }
    return undefined;
  }

  #addToString(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === BACKSLASH) this.#isEscaped = true;
    else if (byte === QUOTE) this.#isInString = false;
  }
}

const COMMA = 0x2c;
const isOpening = (byte: number): boolean => byte === 0x5b || byte === 0x7b;
const isClosing = (byte: number): boolean => byte === 0x5d || byte === 0x7d;

export interface JsonLimits {
  /** Maximum nesting of lists and objects. */
  readonly maxDepth: number;
  /** Maximum number of values, nested values included. */
  readonly maxValues: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Measures JSON text as it arrives, so that a too costly text is never parsed: ten bytes of nesting can take a kilobyte
 * of memory. The syntax is not checked.
 */
export class JsonMeter {
  #depth = 0;
  #values = 1;
  #isInString = false;
  #isEscaped = false;

  constructor(private readonly limits: JsonLimits) {}

  /** Adds bytes and returns the exceeded limit, if any. */
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

import type { InvalidCpiResponseError } from "@diskmesh/cpi";
import { invalid, LASTING } from "../model/answers.js";
import { JsonMeter } from "../model/json-meter.js";

export interface AnswerLimits {
  readonly maxAnswerBytes: number;
  /** Maximum nesting of lists and objects. */
  readonly maxAnswerDepth: number;
  /** Maximum number of values, nested values included. */
  readonly maxAnswerValues: number;
}

/** The memory budget for answers being read, shared by all CPIs. When it is exceeded, the longest answer is refused. */
export class AnswerBudget {
  readonly #bytesOf = new Map<Answer, number>();
  #bytes = 0;

  constructor(private readonly maxBytes: number) {}

  grow(answer: Answer, bytes: number): void {
    this.#bytesOf.set(answer, (this.#bytesOf.get(answer) ?? 0) + bytes);
    this.#bytes += bytes;
    if (this.#bytes <= this.maxBytes) return;
    const [longest] = [...this.#bytesOf].reduce((a, b) => (b[1] > a[1] ? b : a));
    longest.refuse(`all concurrent answers exceed ${this.maxBytes} bytes, and this answer is the longest`);
  }

  release(answer: Answer): void {
    this.#bytes -= this.#bytesOf.get(answer) ?? 0;
    this.#bytesOf.delete(answer);
  }
}

/** A process's standard output up to the limit. */
export class Answer {
  #parts: Buffer[] = [];
  #bytes = 0;
  #isDropped = false;
  readonly #meter: JsonMeter;

  constructor(
    private readonly limits: AnswerLimits,
    private readonly budget: AnswerBudget,
    private readonly onRefused: (error: InvalidCpiResponseError) => void,
  ) {
    this.#meter = new JsonMeter({ maxDepth: limits.maxAnswerDepth, maxValues: limits.maxAnswerValues });
  }

  /** The text read so far; undefined when empty. */
  get text(): string | undefined {
    return this.#bytes === 0 ? undefined : Buffer.concat(this.#parts).toString("utf8");
  }

  add(bytes: Buffer): void {
    if (this.#isDropped) return;
    const why = this.#tooMuch(bytes);
    if (why !== undefined) this.refuse(why, LASTING);
    else {
      this.#parts.push(bytes);
      this.budget.grow(this, bytes.length);
    }
  }

  #tooMuch(bytes: Buffer): string | undefined {
    this.#bytes += bytes.length;
    const { maxAnswerBytes, maxAnswerDepth, maxAnswerValues } = this.limits;
    if (this.#bytes > maxAnswerBytes) return `the answer has more than ${maxAnswerBytes} bytes`;
    const measured = this.#meter.add(bytes);
    if (measured === "depth") return `the answer is more than ${maxAnswerDepth} levels deep`;
    if (measured === "values") return `the answer has more than ${maxAnswerValues} values`;
    return undefined;
  }

  refuse(why: string, about: Parameters<typeof invalid>[1] = {}): void {
    this.drop();
    this.onRefused(invalid(`${why}; the CPI was killed`, about));
  }

  /** Discards the answer and frees its memory. */
  drop(): void {
    this.#isDropped = true;
    this.#parts = [];
    this.#bytes = 0;
    this.budget.release(this);
  }
}

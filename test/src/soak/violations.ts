const MOST_KEPT = 100;
const LONGEST_TEXT = 2_000;

/** Broken promises, each once, in the order of their detection. */
export class Violations {
  readonly #texts = new Map<string, string>();
  readonly #report: (line: string) => void;

  constructor(report: (line: string) => void) {
    this.#report = report;
  }

  add(text: string): void {
    const short = text.slice(0, LONGEST_TEXT);
    if (this.#texts.has(short) || this.#texts.size >= MOST_KEPT) return;
    this.#texts.set(short, new Date().toISOString());
    this.#report(`VIOLATION: ${short}`);
  }

  get all(): readonly { readonly at: string; readonly text: string }[] {
    return [...this.#texts].map(([text, at]) => ({ at, text }));
  }
}

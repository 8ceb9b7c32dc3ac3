/** A promise of diskmesh that was broken. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** Where anything reports what it sees: lines for the reader of a failure, and broken promises. */
export interface Observer {
  /** A line of the trace; part of its hash, so it must depend on the seed alone. */
  trace(line: string): void;
  /** Ends the run at the end of this step. */
  violation(text: string): void;
}

export function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

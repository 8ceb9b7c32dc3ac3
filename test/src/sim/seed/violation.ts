/** Thrown when a promise of diskmesh was broken. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** Receives reports of all parts: trace lines and broken promises. */
export interface Observer {
  /** Records a line of the trace, which its hash includes, so it must depend on the seed alone. */
  trace(line: string): void;
  /** Records a broken promise. The run ends after this step. */
  violation(text: string): void;
}

export function stackOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

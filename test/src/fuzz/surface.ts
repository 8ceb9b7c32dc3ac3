import type { Random } from "../random.js";

/** An interface through which bytes of strangers are received. */
export interface Surface {
  readonly name: string;
  /** Maximum concurrent sends; 1 when inputs must not affect each other. */
  readonly atOnce: number;
  /** Creates an input from random numbers alone. Structured inputs are JSON text, so that each can be stored. */
  next(random: Random): Buffer;
  /**
   * Resolves when the input has had its visible effect. Throws Find for a forbidden answer. Other failures are expected
   * for malformed input.
   */
  send(input: Buffer): Promise<void>;
  /** Numbers of inputs by effect, for the report. */
  readonly counts?: ReadonlyMap<string, number>;
  close?(): Promise<void> | void;
}

/** Thrown when an input caused a forbidden effect. */
export class Find extends Error {
  override readonly name = "Find";
}

/** Counts by name. */
export class Counts extends Map<string, number> {
  add(name: string): void {
    this.set(name, (this.get(name) ?? 0) + 1);
  }
}

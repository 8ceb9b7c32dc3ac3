import type { Random } from "../random.js";

/** One way by which bytes of strangers come in. */
export interface Surface {
  readonly name: string;
  /** Sends that are under way at once; 1 where one must not be seen beside another. */
  readonly atOnce: number;
  /** Makes an input of nothing but the numbers it draws. What is structured is JSON text, so that each can be kept as it is. */
  next(random: Random): Buffer;
  /**
   * Resolves when the input has had its effect, as far as that can be seen. Throws Find for an answer that nobody should
   * get; whatever else goes wrong is what malformed input is for.
   */
  send(input: Buffer): Promise<void>;
  /** How much of its work did what it was made for, by kind, for the report. */
  readonly counts?: ReadonlyMap<string, number>;
  close?(): Promise<void> | void;
}

/** An input did what none may do. */
export class Find extends Error {
  override readonly name = "Find";
}

/** Counts by name. */
export class Counts extends Map<string, number> {
  add(name: string): void {
    this.set(name, (this.get(name) ?? 0) + 1);
  }
}

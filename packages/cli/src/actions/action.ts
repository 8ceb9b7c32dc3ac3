import type { Mesh } from "../mesh/mesh.js";
import type { Output } from "../output/output.js";

export interface ActionCall {
  readonly mesh: Mesh;
  readonly output: Output;
  /** The arguments in the order of `usage`; "" for an omitted optional argument. */
  readonly args: readonly string[];
  readonly options: Options;
  /** Environment variables as the user has set them. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Aborted when the user stops waiting. */
  readonly signal: AbortSignal;
}

/** Options by their long names in camel case. */
export type Options = Readonly<Record<string, string | boolean | undefined>>;

export interface Action {
  /** The name and arguments, such as `remove-host <host-id>`. */
  readonly usage: string;
  readonly summary: string;
  readonly options?: readonly (readonly [flags: string, meaning: string])[];
  /** The values of the first argument, where it takes one of a few. */
  readonly kinds?: readonly string[];
  /** A typical command line. */
  readonly example: string;
  /** True for an action without a total deadline, because the action follows a stream or transfers data of any size. */
  readonly isOpenEnded?: boolean;
  readonly run: (call: ActionCall) => Promise<void>;
}

export function textOption(options: Options, name: string): string {
  const value = options[name];
  return typeof value === "string" ? value : "";
}

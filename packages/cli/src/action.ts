import type { Mesh } from "./mesh.js";
import type { Output } from "./output.js";

export interface ActionCall {
  readonly mesh: Mesh;
  readonly output: Output;
  /** Those of its usage, in their order; one that may be left out is "" then. */
  readonly args: readonly string[];
  readonly options: Options;
  /** Aborted when the person stops waiting. */
  readonly signal: AbortSignal;
}

/** Options by their long names in camel case. */
export type Options = Readonly<Record<string, string | boolean | undefined>>;

/** One subcommand. */
export interface Action {
  /** Its name and arguments, such as `remove-host <host-id>`. */
  readonly usage: string;
  readonly summary: string;
  readonly options?: readonly (readonly [flags: string, meaning: string])[];
  /** A command line that somebody would type. */
  readonly example: string;
  /** True for an action without a total deadline, because it follows something or moves data of any size. */
  readonly isOpenEnded?: boolean;
  readonly run: (call: ActionCall) => Promise<void>;
}

export function textOption(options: Options, name: string): string {
  const value = options[name];
  return typeof value === "string" ? value : "";
}

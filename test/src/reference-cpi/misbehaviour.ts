/** Fault of the CPI, by method or "*". */
export type Misbehaviour = Readonly<Record<string, string>>;

/** Properties of the reference CPI in addition to those of the process CPI. */
export interface TestContext {
  readonly state_folder: string;
  /** Hints are objects with a number in them instead of paths, as some CPIs return. */
  readonly hint?: "object";
  /** Secrets in the hint, for the agent only. The agent's error contains them when it cannot find the disk. */
  readonly hint_secrets?: object;
}

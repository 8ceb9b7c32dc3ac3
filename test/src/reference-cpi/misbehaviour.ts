/** The CPI's fault, by method or "*". */
export type Misbehaviour = Readonly<Record<string, string>>;

/** Properties of the reference CPI beside those of the process CPI. */
export interface TestContext {
  readonly state_folder: string;
  /** A file misbehave.json in the state folder says the same, and wins. */
  readonly misbehave?: Misbehaviour;
  /** Makes hints objects with a number inside, as some CPIs do, instead of paths. */
  readonly hint?: "path" | "object";
  /** Secrets in the hint, only for the agent, which names them when it cannot find the disk. */
  readonly hint_secrets?: object;
}

export interface Login {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly by: "password" | "token" | "session";
  /** The end of a session, in ms since 1970; undefined for methods that authenticate every request. */
  readonly endsAtMs?: number;
}

/** The sender of a request. */
export interface Login {
  readonly name: string;
  readonly scopes: readonly string[];
  /** How it was shown. */
  readonly by: "password" | "token" | "session";
  /** When a session ends, in milliseconds since 1970; undefined for what every request shows anew. */
  readonly endsAtMs?: number;
}

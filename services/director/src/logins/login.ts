export interface Login {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly by: "password" | "token" | "session";
  /**
   * The end of a session, in ms since 1970; undefined for password and token logins, which every request proves anew.
   */
  readonly endsAtMs?: number;
}

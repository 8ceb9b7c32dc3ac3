/** A browser's session at the page. */
export interface PageSession {
  readonly sessionId: string;
  /** In ms since 1970. */
  readonly endsAtMs: number;
}

export interface Login {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly by: "password" | "token" | "session" | "link";
  /** Undefined for password and token logins, which every request proves anew. */
  readonly session?: PageSession;
}

/** Who sent a request. */
export interface Login {
  readonly name: string;
  readonly scopes: readonly string[];
  /** How it was shown. */
  readonly by: "password" | "token";
}

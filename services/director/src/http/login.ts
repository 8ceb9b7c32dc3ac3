/** Who sent a request. */
export interface Login {
  readonly name: string;
  readonly scopes: readonly string[];
}

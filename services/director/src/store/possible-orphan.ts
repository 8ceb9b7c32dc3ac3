/**
 * An object without any other record that may exist at a CPI. Either a call with an unknown outcome may have made the
 * object, and a repeated call would make another, or a forced deletion left the object behind. The record stays until
 * an operator deletes it or newer records exceed the limit.
 */
export interface PossibleOrphan {
  /** The token that the CPI got in the call; for a VM the agent's id. */
  readonly token: string;
  readonly kind: "vm" | "disk" | "snapshot";
  /** The object's cid, if it was known when the object was left behind. */
  readonly cid?: string | undefined;
  readonly cpi: string;
  readonly az: string;
  readonly deployment: string;
  /** The instance or dynamic disk for which the object was made. */
  readonly madeFor: string;
  readonly taskId: number;
  /** The error of the call; empty for none. */
  readonly reason: string;
  readonly sinceMs: number;
}

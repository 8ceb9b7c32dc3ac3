/**
 * An object that a CPI may have made and whose id is unknown, because the outcome of the call is unknown and a repeated
 * call would make another object. The record stays until an operator has checked.
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

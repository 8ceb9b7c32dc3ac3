/**
 * Something that a CPI may have made and nobody knows the id of: what came of a call is not known, and asked again the CPI
 * would make another. It stands until an operator has looked.
 */
export interface PossibleOrphan {
  /** The call's token, which the CPI was given: of a VM its agent's id. */
  readonly token: string;
  readonly kind: "vm" | "disk" | "snapshot";
  /** Its id, of one that was left behind although it was known. */
  readonly cid?: string | undefined;
  readonly cpi: string;
  readonly az: string;
  readonly deployment: string;
  /** The instance, or the dynamic disk, that it was made for. */
  readonly madeFor: string;
  readonly taskId: number;
  /** The answer to the call, if any. */
  readonly reason: string;
  readonly sinceMs: number;
}

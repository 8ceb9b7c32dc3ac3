/** A call of a CPI that changes something, recorded before it is made and until it is known to have ended. */
export interface CpiCall {
  /** The dispatcher's name for it: of one call, not of its repetition. */
  readonly callId: string;
  /** The address of the dispatcher that it is made at. */
  readonly dispatcher: string;
  /** The tablet's generation when the call was made. */
  readonly directorGeneration: number;
  readonly taskId: number;
  readonly requestId: string;
  readonly method: string;
  /** The CPI of the method; empty for the default CPI, absent where an older version recorded the call. */
  readonly cpi?: string | undefined;
  /** The objects that the call changes: no other call that changes one of them is made before this one has ended. */
  readonly things: readonly string[];
  readonly sinceMs: number;
}

/** A mutating CPI call, recorded before the call is made and until the call is known to have ended. */
export interface CpiCall {
  /** The dispatcher's id of this call; a repetition of the call gets another id. */
  readonly callId: string;
  /** The address of the dispatcher that makes the call. */
  readonly dispatcher: string;
  /** The tablet's generation when the call was made. */
  readonly directorGeneration: number;
  readonly taskId: number;
  readonly requestId: string;
  readonly method: string;
  /** The called CPI; empty for the default CPI, undefined in records of older versions. */
  readonly cpi?: string | undefined;
  /** The objects that the call changes. Another call that changes any of them waits until this call has ended. */
  readonly things: readonly string[];
  readonly sinceMs: number;
}

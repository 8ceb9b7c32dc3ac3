/** A call of an asynchronous vendor method with a request id. Repetitions of the call get its task. */
export interface VendorCall {
  readonly taskId: number;
  /** The caller's identity and request id. */
  readonly request: string;
  /** A hash of the call without its secret arguments, whose hash could reveal them. */
  readonly digest: string;
  /** The names of the secret arguments. */
  readonly secretArgs: readonly string[];
}

/** A page session that its user has ended before its time. Kept until the session would have ended by itself. */
export interface EndedSession {
  readonly sessionId: string;
  readonly user: string;
  readonly endsAtMs: number;
}

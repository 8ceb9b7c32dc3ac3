import { ResourceExhaustedError } from "@diskmesh/domain";
import type { DirectorTransaction } from "../store/schema.js";
import type { PageSession } from "./login.js";

/** Bounds what one user's logins and logouts can write to the tablet. */
const MAX_PER_USER = 1_000;

/**
 * Records that a user has ended a session. Forgets sessions whose time is over. Throws ResourceExhaustedError for a user
 * with too many ended sessions.
 */
export function endSession(tx: DirectorTransaction, user: string, { sessionId, endsAtMs }: PageSession, nowMs: number) {
  for (const ended of tx.endedSessions.entries()) if (ended.endsAtMs <= nowMs) tx.endedSessions.delete(ended.sessionId);
  if ([...tx.endedSessions.by("byUser", user)].length >= MAX_PER_USER)
    throw new ResourceExhaustedError(
      `${MAX_PER_USER} sessions of ${user} were ended within 12 hours, the limit: change the password to end all others`,
    );
  tx.endedSessions.put({ sessionId, user, endsAtMs });
}

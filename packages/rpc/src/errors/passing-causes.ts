import { CancelledError, DiskFullError, type DomainError, UnavailableError } from "@diskmesh/domain";

/** Temporary system errors, such as too few file descriptors or a refused connection, with the text for callers. */
const OF_THE_SYSTEM: Readonly<Record<string, string>> = {
  EMFILE: "the process has no descriptors left",
  ENFILE: "the machine has no descriptors left",
  ENOMEM: "the machine has no memory left",
  EAGAIN: "the machine has no processes or buffers left",
  EBUSY: "a resource that it needs is in use",
  ECONNREFUSED: "a service that it needs cannot be reached",
  ECONNRESET: "a connection that it needs was lost",
  ECONNABORTED: "a connection that it needs was lost",
  EPIPE: "a connection that it needs was lost",
  ETIMEDOUT: "a service that it needs does not answer",
  EHOSTUNREACH: "a service that it needs cannot be reached",
  ENETUNREACH: "a service that it needs cannot be reached",
  EADDRNOTAVAIL: "the machine has no ports left",
  EAI_AGAIN: "names cannot be looked up",
  ENOTFOUND: "the name of a service that it needs cannot be looked up",
};

const NO_ROOM: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EFBIG"]);

const DATABASE = "the database cannot be reached, or refuses requests now";
const NATS = "NATS cannot be reached, or does not answer";

/** Errors of the MongoDB and NATS drivers that are no bugs, by class name, with the text for callers. */
const OF_DRIVERS: Readonly<Record<string, string>> = {
  MongoNetworkError: DATABASE,
  MongoNetworkTimeoutError: DATABASE,
  MongoServerSelectionError: DATABASE,
  MongoServerError: DATABASE,
  MongoStalePrimaryError: DATABASE,
  MongoOperationTimeoutError: DATABASE,
  MongoNotConnectedError: DATABASE,
  MongoTopologyClosedError: DATABASE,
  MongoServerClosedError: DATABASE,
  MongoClientClosedError: DATABASE,
  MongoExpiredSessionError: DATABASE,
  LostAnswerError: DATABASE,
  NoRespondersError: NATS,
  ConnectionError: NATS,
  ClosedConnectionError: NATS,
  DrainingConnectionError: NATS,
  RequestError: NATS,
  TimeoutError: "a service that it needs did not answer in time",
};

/**
 * Returns the error to report for a thrown system or driver error: a shortage, or an unreachable dependency. Returns
 * undefined for domain errors and bugs. A fallback for errors that no code handled more precisely: as INTERNAL they
 * would stop callers from retrying. The text is a fixed one, because the original may contain secrets.
 */
export function passingCause(thrown: unknown, requestId: string): DomainError | undefined {
  if (!(thrown instanceof Error)) return undefined;
  const code = "code" in thrown && typeof thrown.code === "string" ? thrown.code : "";
  const rest = `whether the call took effect is not known; the server's log has more under request id ${requestId}`;
  const details = { cause: thrown, outcome: "unknown" } as const;
  if (thrown.name === "AbortError" || code === "ABORT_ERR")
    return new CancelledError(`the call was cut off; ${rest}`, { cause: thrown });
  if (NO_ROOM.has(code)) return new DiskFullError(`a disk of the server is full (${code}); ${rest}`, details);
  const why = ownValue(OF_THE_SYSTEM, code) ?? ownValue(OF_DRIVERS, thrown.name);
  if (why === undefined) return undefined;
  return new UnavailableError(`the server cannot do this now: ${why} (${code || thrown.name}); ${rest}`, details);
}

function ownValue(table: Readonly<Record<string, string>>, key: string): string | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

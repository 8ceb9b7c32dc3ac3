/** Limits of one gRPC server. */
export interface RpcServerLimits {
  /** Maximum size of a message sent or received, in bytes. */
  readonly maxMessageBytes: number;
  /**
   * Concurrent calls other than streams; further ones are refused with RESOURCE_EXHAUSTED. A tenth is reserved for a
   * registry's orders, a tenth for reports of agents, and a tenth for reads by operators.
   */
  readonly maxConcurrentCalls: number;
  /** Concurrent calls of one operator or agent. */
  readonly maxCallsPerPeer: number;
  /**
   * Concurrent streams. A new stream beyond the limit ends the one that is idle longest; 32 are reserved for each of
   * the groups above.
   */
  readonly maxConcurrentStreams: number;
  /** Concurrent streams of one operator or agent. */
  readonly maxStreamsPerPeer: number;
  /** Time without a message after which a stream may be ended for another one, in milliseconds. */
  readonly minStreamIdleMs: number;
  /** Time in which the first message of a call or stream must have arrived completely, in milliseconds. */
  readonly firstMessageTimeoutMs: number;
  /** Calls and streams of one peer whose first message has not arrived; a further one ends the oldest. */
  readonly maxSilentStreamsPerPeer: number;
  /** Concurrent connections; further ones are closed at once. */
  readonly maxConnections: number;
  /** Concurrent connections from one address. */
  readonly maxConnectionsPerAddress: number;
  /** Concurrent TLS handshakes, in all and from one address; further ones are queued. */
  readonly maxHandshakes: number;
  readonly maxHandshakesPerAddress: number;
  /** TLS handshake timeout, in milliseconds, not counting event-loop stalls. */
  readonly handshakeTimeoutMs: number;
  /** Age after which a connection is closed once its calls have ended, in milliseconds, plus or minus a random 10 %. */
  readonly maxConnectionAgeMs: number;
  /** Further time that streams get on such a connection, in milliseconds. */
  readonly connectionAgeGraceMs: number;
  /** Deadline of calls whose client set none, in milliseconds. Streams last until their client ends them. */
  readonly defaultDeadlineMs: number;
  /** Longest deadline that a client may set for a call other than a stream, in milliseconds. */
  readonly maxDeadlineMs: number;
  /** Time that a stop waits for calls under way, in milliseconds. */
  readonly drainTimeoutMs: number;
}

export const DEFAULT_RPC_SERVER_LIMITS: RpcServerLimits = {
  maxMessageBytes: 4 * 1024 * 1024,
  maxConcurrentCalls: 1000,
  maxCallsPerPeer: 250,
  maxConcurrentStreams: 1000,
  maxStreamsPerPeer: 250,
  minStreamIdleMs: 10_000,
  firstMessageTimeoutMs: 10_000,
  maxSilentStreamsPerPeer: 100,
  maxConnections: 20_000,
  maxConnectionsPerAddress: 2_000,
  maxHandshakes: 500,
  maxHandshakesPerAddress: 125,
  handshakeTimeoutMs: 10_000,
  maxConnectionAgeMs: 12 * 60 * 60_000,
  connectionAgeGraceMs: 60 * 60_000,
  defaultDeadlineMs: 30_000,
  maxDeadlineMs: 10 * 60_000,
  drainTimeoutMs: 2_000,
};

/**
 * Keepalive detects a dead peer within time plus timeout, 30 s, on both ends and without calls, because a registry must
 * know that an agent is gone before it has an order for it. The timeout exceeds the time that a storm of calls keeps a
 * server busy: closing connections that merely wait would turn it into a storm of handshakes.
 */
export const KEEPALIVE_OPTIONS = {
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 20_000,
  "grpc.keepalive_permit_without_calls": 1,
};

/** A client finds a restarted peer within about 2 s, regardless of the length of the outage. */
export const RECONNECT_OPTIONS = {
  "grpc.initial_reconnect_backoff_ms": 200,
  "grpc.max_reconnect_backoff_ms": 2_000,
};

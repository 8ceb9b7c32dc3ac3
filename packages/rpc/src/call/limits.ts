/** Limits of a gRPC server that protect it from too many or too slow callers. */
export interface RpcServerLimits {
  /** Maximum size of a message sent or received, in bytes. */
  readonly maxMessageBytes: number;
  /**
   * Maximum number of concurrent unary calls; further ones are refused with RESOURCE_EXHAUSTED. One tenth each is
   * reserved for orders of registries, reports of agents, and reads by operators.
   */
  readonly maxConcurrentCalls: number;
  /** Maximum number of concurrent unary calls of one operator or agent. */
  readonly maxCallsPerPeer: number;
  /**
   * Maximum number of concurrent streams. A new stream beyond the limit ends the stream that is idle longest. Each
   * caller group with reserved calls (see `maxConcurrentCalls`) also has 32 reserved streams, but at most one tenth.
   */
  readonly maxConcurrentStreams: number;
  /** Maximum number of concurrent streams of one operator or agent. */
  readonly maxStreamsPerPeer: number;
  /** Idle time, in milliseconds, after which a stream may be ended to admit another. */
  readonly minStreamIdleMs: number;
  /** Timeout for the complete arrival of the first message of a call or stream, in milliseconds. */
  readonly firstMessageTimeoutMs: number;
  /**
   * Maximum number of streams of one peer whose first message has not arrived. A further stream ends the oldest of
   * them.
   */
  readonly maxSilentStreamsPerPeer: number;
  /** Maximum number of concurrent connections; further ones are closed at once. */
  readonly maxConnections: number;
  /** Maximum number of concurrent connections from one address. */
  readonly maxConnectionsPerAddress: number;
  /** Maximum number of concurrent TLS handshakes, in total and from one address; further ones are queued. */
  readonly maxHandshakes: number;
  readonly maxHandshakesPerAddress: number;
  /** TLS handshake timeout, in milliseconds, not counting event-loop stalls. */
  readonly handshakeTimeoutMs: number;
  /** Deadline of calls whose client set none, in milliseconds. Streams last until their client ends them. */
  readonly defaultDeadlineMs: number;
  /** Longest deadline that a client may set for a call other than a stream, in milliseconds. */
  readonly maxDeadlineMs: number;
  /** Timeout of the wait for running calls when the server stops, in milliseconds. */
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
  defaultDeadlineMs: 30_000,
  maxDeadlineMs: 10 * 60_000,
  drainTimeoutMs: 2_000,
};

/**
 * Keepalive detects a dead peer within time plus timeout, 30 s, on both ends and without calls, because a registry must
 * know that an agent is gone before it sends an order. The timeout exceeds the stall of a server under a storm of
 * calls: closing live connections would add a storm of handshakes.
 *
 * Keepalive of grpc-js 1.14 cuts off calls: on a connection that closes gracefully, Node sends no ping, which grpc-js
 * takes for a dead peer and destroys the connection with its calls (https://github.com/grpc/grpc-node/issues/3068; the
 * server does the same). Hence neither end closes a connection before its last call has ended: connections have no
 * maximum age, a server drains its calls before it closes, and a closed client keeps its link until then.
 */
export const KEEPALIVE_OPTIONS = {
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 20_000,
  "grpc.keepalive_permit_without_calls": 1,
};

/**
 * Reconnect backoff with a maximum of about 2 s, so that a client finds a restarted server quickly even after a long
 * outage.
 */
export const RECONNECT_OPTIONS = {
  "grpc.initial_reconnect_backoff_ms": 200,
  "grpc.max_reconnect_backoff_ms": 2_000,
};

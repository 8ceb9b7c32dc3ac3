/** Limits of one gRPC server. */
export interface RpcServerLimits {
  /** Longest message that is received or sent, in bytes. */
  readonly maxMessageBytes: number;
  /**
   * Calls served at once, streams aside; more are refused with RESOURCE_EXHAUSTED. A tenth is kept for a registry's
   * orders, a tenth for what agents report, and a tenth for operators who look.
   */
  readonly maxConcurrentCalls: number;
  /** Of them, calls of one operator or agent. */
  readonly maxCallsPerPeer: number;
  /** Streams served at once. When there is no room the one that idles longest ends; 32 are kept for each as above. */
  readonly maxConcurrentStreams: number;
  /** Of them, streams of one operator or agent. */
  readonly maxStreamsPerPeer: number;
  /** A stream on which nothing came or went for so long may be ended for another, in milliseconds. */
  readonly minStreamIdleMs: number;
  /** Time until the first message of a call or stream must have come whole, in milliseconds. */
  readonly firstMessageTimeoutMs: number;
  /** Calls and streams of one peer whose first message has not come; the oldest ends for a further one. */
  readonly maxSilentStreamsPerPeer: number;
  /** Connections at once; more are cut at once. */
  readonly maxConnections: number;
  /** Of them, connections from one address. */
  readonly maxConnectionsPerAddress: number;
  /** TLS handshakes under way at once, and of them from one address; more wait for their turn. */
  readonly maxHandshakes: number;
  readonly maxHandshakesPerAddress: number;
  /** Time for a whole TLS handshake, in milliseconds in which the process was not too busy to answer. */
  readonly handshakeTimeoutMs: number;
  /** A connection that is older is ended after its calls, in milliseconds; a tenth earlier or later, at random. */
  readonly maxConnectionAgeMs: number;
  /** How long streams may then go on, in milliseconds. */
  readonly connectionAgeGraceMs: number;
  /** Time for a call whose client set no deadline, in milliseconds. Streams may last until their client ends them. */
  readonly defaultDeadlineMs: number;
  /** Longest deadline that a client may set for a call that is no stream, in milliseconds. */
  readonly maxDeadlineMs: number;
  /** How long a stop waits for calls under way, in milliseconds. */
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
 * A dead peer is noticed after at most keepalive time plus timeout, 30 s, on both ends and without calls too, because
 * a registry must learn that an agent is gone before it has an order for it. The timeout is longer than any server is
 * busy with one storm of calls: cutting connections that only wait would turn it into a storm of handshakes.
 */
export const KEEPALIVE_OPTIONS = {
  "grpc.keepalive_time_ms": 10_000,
  "grpc.keepalive_timeout_ms": 20_000,
  "grpc.keepalive_permit_without_calls": 1,
};

/** A restarted peer is found again within about 2 s, however long it was away. */
export const RECONNECT_OPTIONS = {
  "grpc.initial_reconnect_backoff_ms": 200,
  "grpc.max_reconnect_backoff_ms": 2_000,
};

/** Limits of one gRPC server. Every service names them in its config under `limits`. */
export interface RpcServerLimits {
  /** Longest message that is received or sent, in bytes. */
  readonly maxMessageBytes: number;
  /** Calls served at once; more are refused with RESOURCE_EXHAUSTED. */
  readonly maxConcurrentCalls: number;
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
  defaultDeadlineMs: 30_000,
  maxDeadlineMs: 10 * 60_000,
  drainTimeoutMs: 10_000,
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

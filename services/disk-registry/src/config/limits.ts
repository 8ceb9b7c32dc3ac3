import { DEFAULT_RPC_SERVER_LIMITS, LIST_LIMITS, type ListLimits, type RpcServerLimits } from "@diskmesh/rpc";

/** Limits and times of a registry that are not configurable. */
export const REGISTRY_LIMITS = {
  /** Delay between two tries of an order, a publication or an erase. */
  backoff: { minDelayMs: 100, maxDelayMs: 30_000 },
  /**
   * Timeout of an agent's answer. An agent answers PENDING after 1 s when its work continues; a busy host may answer
   * later.
   */
  agentTimeoutMs: 15_000,
  /** Hosts with an order in flight; each host has at most one. */
  maxOrderedHosts: 256,
  /** Devices in one order; equals the maximum of a host. */
  maxDevicesPerOrder: 4_096,
  /** Disks being published or unpublished at once. */
  maxPublications: 64,
  /** Time that a fence waits for the old host to end its export. A hung host must not delay the fence. */
  unexportTimeoutMs: 2_000,
  /** Time before its deadline at which a call answers that the work continues, so that the answer arrives. */
  answerMarginMs: 250,
  /** Agents called at once for erases; an erase continues between two calls. */
  maxErasingAgents: 64,
  erasePollIntervalMs: 200,

  /** `retry_after` while agents close devices, which takes about a second. */
  closingRetryAfterMs: 1_000,
  /** `retry_after` while devices are being erased. */
  erasingRetryAfterMs: 1_000,
  /**
   * `retry_after` while an operator has to act: disks block the removal, a device cannot be erased, or a host is
   * UNAVAILABLE.
   */
  waitingRetryAfterMs: 10_000,
  /** Upper limit of `waitingRetryAfterMs`, which grows while a broken disk blocks the removal. */
  maxWaitingRetryAfterMs: 300_000,

  /**
   * Maximum lead over this registry's own numbers at which an agent's report is believed. A registry issues fewer
   * numbers between two backups, and 2^32 steps of this size fit into a number. A larger lead needs an operator's
   * RaiseNumbers.
   */
  believedAhead: 2 ** 20,
  /**
   * Minimum interval between two raises that only agents' reports cause, so that a lying agent raises the counters once
   * an hour at most.
   */
  raiseIntervalMs: 3_600_000,
  /** Maximum other incarnations that are remembered. */
  maxOthers: 64,

  lists: LIST_LIMITS as ListLimits,
  /** Concurrent streams of WatchHosts, WatchDevices and WatchDisks. */
  maxWatchers: 100,
  /** Changes of each kind that are kept. A watcher that lags further behind, or resumes later, gets a new snapshot. */
  maxRememberedChanges: 100_000,

  maxHosts: 100_000,
  maxDevicesPerHost: 4_096,
  maxExportsPerHost: 4_096,
  maxDisks: 1_000_000,
  maxDevicesPerDisk: 256,
  maxLabelsPerDisk: 64,
  /** Maximum characters of a label's name, and of its value. */
  maxLabelLength: 1_024,
  /** Maximum characters of a message, a reason or an error. */
  maxTextLength: 4_096,
};

export type RegistryLimits = Readonly<typeof REGISTRY_LIMITS>;

/** Allows as many concurrent calls as one registry has agents, because all of them register again after a takeover. */
export const RPC_LIMITS: RpcServerLimits = {
  ...DEFAULT_RPC_SERVER_LIMITS,
  maxConcurrentCalls: 20_000,
  maxCallsPerPeer: 5_000,
};

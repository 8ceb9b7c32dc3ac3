import { DEFAULT_RPC_SERVER_LIMITS, type RpcServerLimits } from "@diskmesh/rpc";

/** Limits and times of a registry that are not configurable. */
export const REGISTRY_LIMITS = {
  /** Delay between two tries of an order, a publication or an erase. */
  backoff: { minDelayMs: 100, maxDelayMs: 30_000 },
  /**
   * Timeout of an agent's answer. An agent answers PENDING after 1 s when its work continues; a busy host may answer
   * later.
   */
  agentTimeoutMs: 15_000,
  /** Maximum hosts with an order in flight. Each host has at most one order in flight. */
  maxOrderedHosts: 256,
  /** Maximum devices in one order; equals the maximum number of devices of a host. */
  maxDevicesPerOrder: 4_096,
  /** Maximum disks being published or unpublished at once. */
  maxPublications: 64,
  /** Timeout in ms of the order that ends a host's export. A hung host delays an unpublication by no more than this. */
  unexportTimeoutMs: 2_000,
  /**
   * Time in ms before a call's deadline at which the call answers that its work continues, so that the answer arrives.
   */
  answerMarginMs: 250,
  /** Maximum agents called at once for erases. An agent continues an erase between two calls. */
  maxErasingAgents: 64,
  erasePollIntervalMs: 200,
  /** Maximum moves asked about at once. An agent continues a copy between two calls. */
  maxMoves: 64,

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
   * Maximum lead over this registry's own number at which a number in an agent's report is believed. A registry issues
   * fewer numbers than this between two backups, and a counter has room for 2^32 such leads. A larger lead needs an
   * operator's RaiseNumbers.
   */
  believedAhead: 2 ** 20,
  /**
   * Minimum interval between two raises of the registry's counters that an agent's report triggers, so that a lying
   * agent raises the counters once an hour at most.
   */
  raiseIntervalMs: 3_600_000,
  /** Maximum incarnations of other registries that are remembered, without adopted ones. */
  maxOthers: 64,

  /** Maximum concurrent streams of WatchHosts, WatchDevices and WatchDisks. */
  maxWatchers: 100,
  /**
   * Maximum changes that are kept for each kind of thing. A watcher that lags further behind, or resumes later, gets a
   * new snapshot.
   */
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

import { DEFAULT_RPC_SERVER_LIMITS, LIST_LIMITS, type ListLimits, type RpcServerLimits } from "@diskmesh/rpc";

/** Limits and times of a registry that no operator sets. */
export const REGISTRY_LIMITS = {
  /** Between two tries of an order, a publication or an erase. */
  backoff: { minDelayMs: 100, maxDelayMs: 30_000 },
  /** Time for an agent's answer: above the second after which it answers that the work goes on, on a busy host. */
  agentTimeoutMs: 15_000,
  /** Hosts ordered at once; one order is in flight per host. */
  maxOrderedHosts: 256,
  /** Devices of one order: those of a whole host. */
  maxDevicesPerOrder: 4_096,
  /** Disks published or unpublished at once. */
  maxPublications: 64,
  /** Time in which a fence lets the old host end its export by itself: a host that hangs must not hold up its disk. */
  unexportTimeoutMs: 2_000,
  /** A call answers so long before its deadline that the work goes on, so that the answer arrives. */
  answerMarginMs: 250,
  /** Agents asked at once; an erase goes on between two questions. */
  maxErasingAgents: 64,
  erasePollIntervalMs: 200,

  /** `retry_after` while agents let go of devices, which takes about a second. */
  closingRetryAfterMs: 1_000,
  /** `retry_after` while devices are erased. */
  erasingRetryAfterMs: 1_000,
  /** `retry_after` while an operator has to act: disks are in the way, a device cannot be erased, a host is UNAVAILABLE. */
  waitingRetryAfterMs: 10_000,
  /** `waitingRetryAfterMs` grows to this while a broken disk is in the way. */
  maxWaitingRetryAfterMs: 300_000,

  /**
   * An agent's report is believed for numbers up to so much above our own: more than a registry counts between two
   * backups, and 2^32 of them fit into a number. More takes an operator's word.
   */
  believedAhead: 2 ** 20,
  /** Agents' reports alone raise the registry's numbers so often: a lie costs one such step an hour. */
  raiseIntervalMs: 3_600_000,
  /** Other incarnations that are remembered. */
  maxOthers: 64,

  lists: LIST_LIMITS as ListLimits,
  /** Streams of WatchHosts, WatchDevices and WatchDisks at once. */
  maxWatchers: 100,
  /** Changes that watchers of each kind may lag behind, or resume after; beyond it they are sent a snapshot again. */
  maxRememberedChanges: 100_000,

  maxHosts: 100_000,
  maxDevicesPerHost: 4_096,
  maxExportsPerHost: 4_096,
  maxDisks: 1_000_000,
  maxDevicesPerDisk: 256,
  maxLabelsPerDisk: 64,
  /** Characters of the name of a label, and of its value. */
  maxLabelLength: 1_024,
  /** Characters of a message, a reason or an error. */
  maxTextLength: 4_096,
};

export type RegistryLimits = Readonly<typeof REGISTRY_LIMITS>;

/** As many calls at once as agents of one registry may register again after a takeover, at the same moment. */
export const RPC_LIMITS: RpcServerLimits = {
  ...DEFAULT_RPC_SERVER_LIMITS,
  maxConcurrentCalls: 20_000,
  maxCallsPerPeer: 5_000,
};

import {
  durationMsConfig,
  hostPortConfig,
  listenConfig,
  pagingConfig,
  rpcLimitsConfig,
  serviceConfig,
  tabletConfig,
  tlsConfig,
} from "@diskmesh/service";
import * as z from "zod";

const count = z.int().min(1).max(10_000_000);

const backoffConfig = z
  .strictObject({ minDelayMs: durationMsConfig.default(100), maxDelayMs: durationMsConfig.default(30_000) })
  .refine(({ minDelayMs, maxDelayMs }) => minDelayMs <= maxDelayMs, "minDelayMs must not be above maxDelayMs")
  .prefault({});

const heartbeatConfig = z
  .strictObject({
    /** What agents are told to keep to; also how often silence is looked for. */
    intervalMs: durationMsConfig.default(2_000),
    /** Silence after which a host is UNAVAILABLE. */
    timeoutMs: durationMsConfig.default(10_000),
    /** Heartbeats in a row that are missing when a host is suspected, and gets nothing new. */
    missedUntilSuspected: count.default(2),
    /** How long a host that was UNAVAILABLE is WARNING, with nothing new placed on it, before it is ONLINE; 0 for not at all. */
    probationMs: z.int().min(0).max(3_600_000).default(5_000),
  })
  // A host that beats as told is silent for an interval; that long before the timeout, silence counts towards a mass
  // silence (`findSilent`), and hosts that are well must not.
  .refine(({ intervalMs, timeoutMs }) => 2 * intervalMs < timeoutMs, "timeoutMs must be more than twice intervalMs")
  .prefault({});

/** The configuration of the disk-registry process. */
export const configSchema = z.strictObject({
  ...serviceConfig,
  listen: listenConfig,
  tls: tlsConfig,
  /** Where others reach this process; `listen` by default. */
  advertisedAddress: hostPortConfig.optional(),
  tablet: tabletConfig("registry"),
  heartbeat: heartbeatConfig,
  /** How long the word of an UNAVAILABLE host is waited for before its closing devices count as detached. */
  unavailableRemovalTimeoutMs: durationMsConfig.default(3_600_000),
  /**
   * Serial numbers that several drives bear by the fault of who made them. Any other one on two hosts means one drive that
   * both see, of which one host's device is refused.
   */
  serialNumbersOfMany: z
    .array(z.string().min(1).max(255))
    .max(10_000)
    .default([])
    .transform((serialNumbers): ReadonlySet<string> => new Set(serialNumbers)),
  /** When callers of CMS actions and CreateDisk are told to ask again. */
  retryAfter: z
    .strictObject({
      /** While agents let go of devices. */
      closingMs: durationMsConfig.default(1_000),
      /** While disks are in the way, a device cannot be erased, or a host is UNAVAILABLE. */
      waitingMs: durationMsConfig.default(10_000),
      /** While a broken disk is in the way, it grows from `waitingMs` to this. */
      maxWaitingMs: durationMsConfig.default(300_000),
      /** While devices are erased. */
      erasingMs: durationMsConfig.default(1_000),
    })
    .prefault({}),
  /** What agents remember of a registry that this one knows nothing of: a restored backup, a store that was copied back, a lie. */
  fleet: z
    .strictObject({
      /** An agent's word is believed for numbers up to so much above our own; more takes an operator's. */
      believedAhead: z
        .int()
        .min(1)
        .max(2 ** 32)
        .default(2 ** 20),
      /** How often agents' words alone make the registry go on above them. */
      raiseIntervalMs: durationMsConfig.default(3_600_000),
      /** Other incarnations that are remembered. */
      maxOthers: count.default(64),
    })
    .prefault({}),
  /** Attach and detach orders to agents. */
  orders: z
    .strictObject({
      backoff: backoffConfig,
      requestTimeoutMs: durationMsConfig.default(15_000),
      /** Hosts ordered at once; one order is in flight per host. */
      maxConcurrent: count.default(256),
      maxDevicesPerOrder: count.default(4_096),
    })
    .prefault({}),
  /** Publishing and unpublishing disks. */
  publications: z
    .strictObject({
      backoff: backoffConfig,
      requestTimeoutMs: durationMsConfig.default(15_000),
      /** How long a fence waits for the old host to end its export by itself. */
      unexportTimeoutMs: durationMsConfig.default(2_000),
      /** Disks worked on at once. */
      maxConcurrent: count.default(64),
      /** How long before a call's deadline it is answered that the work goes on. */
      answerMarginMs: durationMsConfig.default(250),
    })
    .prefault({}),
  /** Erasing dirty devices. How fast a host erases is in its agent's config. */
  erase: z
    .strictObject({
      backoff: backoffConfig,
      requestTimeoutMs: durationMsConfig.default(15_000),
      /** How often an erase under way is asked after. */
      pollIntervalMs: durationMsConfig.default(200),
      /** Agents asked at once; an erase goes on between two questions. */
      maxConcurrent: count.default(64),
    })
    .prefault({}),
  paging: pagingConfig,
  /** Callers of WatchHosts, WatchDevices and WatchDisks. */
  watch: z
    .strictObject({
      maxWatchers: count.default(100),
      /** Changes that watchers of each may lag behind, or resume after; beyond it they are sent a snapshot again. */
      maxRememberedChanges: count.default(100_000),
    })
    .prefault({}),
  /** What ListEvents tells: who did what. An event takes about 0.5 KiB of memory, and of the store. */
  events: z
    .strictObject({
      /** Events that are kept; beyond it the oldest are dropped. */
      maxCount: count.default(20_000),
      /** The same for what happens all the time: what the dispatcher does, erases, and what operators were refused. */
      maxRoutineCount: count.default(20_000),
      maxAgeDays: z.int().min(1).max(3_650).default(90),
    })
    .prefault({}),
  limits: z
    .strictObject({
      maxHosts: count.default(100_000),
      maxDevicesPerHost: count.default(4_096),
      maxExportsPerHost: count.default(4_096),
      maxDisks: count.default(1_000_000),
      maxDevicesPerDisk: count.default(256),
      maxLabelsPerDisk: count.default(64),
      maxLabelLength: count.default(1_024),
      maxTextLength: count.default(4_096),
    })
    .prefault({}),
  /** Calls at once: as many agents as one registry may have register again after a takeover, at the same moment. */
  rpc: rpcLimitsConfig({ maxConcurrentCalls: 20_000, maxCallsPerPeer: 5_000 }),
});

export type Config = z.output<typeof configSchema>;

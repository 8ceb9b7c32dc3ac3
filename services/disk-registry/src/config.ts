import {
  durationMsConfig,
  groupConfig,
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
  .strictObject({
    minDelayMs: durationMsConfig.default(100).describe("The first wait."),
    maxDelayMs: durationMsConfig.default(30_000).describe("The longest wait: each is about twice the one before."),
  })
  .refine(({ minDelayMs, maxDelayMs }) => minDelayMs <= maxDelayMs, "minDelayMs must not be above maxDelayMs")
  .prefault({});

const heartbeatConfig = z
  .strictObject({
    intervalMs: durationMsConfig
      .default(2_000)
      .describe("What agents are told to keep to; also how often silence is looked for."),
    timeoutMs: durationMsConfig.default(10_000).describe("Silence after which a host is UNAVAILABLE."),
    missedUntilSuspected: count
      .default(2)
      .describe("Heartbeats in a row that are missing when a host is suspected, and gets nothing new."),
    probationMs: z
      .int()
      .min(0)
      .max(3_600_000)
      .default(5_000)
      .describe(
        "How long a host that was UNAVAILABLE is WARNING, with nothing new placed on it, before it is ONLINE; 0 for not at all.",
      ),
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
  advertisedAddress: hostPortConfig.optional().describe("Where others reach this process; `listen` by default."),
  tablet: tabletConfig("registry"),
  heartbeat: heartbeatConfig.describe("What agents say of themselves, and when they say nothing."),
  unavailableRemovalTimeoutMs: durationMsConfig
    .default(3_600_000)
    .describe(
      "How long the word of an UNAVAILABLE host is waited for before its closing devices count as detached. Counted while a registry leads and can hear hosts, whatever the clocks say.",
    ),
  serialNumbersOfMany: z
    .array(z.string().min(1).max(255))
    .max(10_000)
    .default([])
    .transform((serialNumbers): ReadonlySet<string> => new Set(serialNumbers))
    .describe(
      "Serial numbers that several drives bear by the fault of who made them: they identify no drive. Any other one on two hosts means one drive that both see, of which one host's device is refused.",
    ),
  retryAfter: groupConfig("When callers of CMS actions and CreateDisk are told to ask again.", {
    closingMs: durationMsConfig.default(1_000).describe("While agents let go of devices."),
    waitingMs: durationMsConfig
      .default(10_000)
      .describe("While disks are in the way, a device cannot be erased, or a host is UNAVAILABLE."),
    maxWaitingMs: durationMsConfig
      .default(300_000)
      .describe("While a broken disk is in the way, it grows from `waitingMs` to this."),
    erasingMs: durationMsConfig.default(1_000).describe("While devices are erased."),
  }),
  fleet: groupConfig(
    "What agents remember of a registry that this one knows nothing of: a restored backup, a store that was copied back, a lie.",
    {
      believedAhead: z
        .int()
        .min(1)
        .max(2 ** 32)
        .default(2 ** 20)
        .describe("An agent's word is believed for numbers up to so much above our own; more takes an operator's."),
      raiseIntervalMs: durationMsConfig
        .default(3_600_000)
        .describe("How often agents' words alone make the registry go on above them."),
      maxOthers: count.default(64).describe("Other incarnations that are remembered."),
    },
  ),
  orders: groupConfig("Attach and detach orders to agents.", {
    backoff: backoffConfig.describe("Between two tries."),
    requestTimeoutMs: durationMsConfig.default(15_000).describe("How long an agent may take to answer an order."),
    maxConcurrent: count.default(256).describe("Hosts ordered at once; one order is in flight per host."),
    maxDevicesPerOrder: count.default(4_096).describe("Devices of one order; more make another one."),
  }),
  publications: groupConfig("Publishing and unpublishing disks.", {
    backoff: backoffConfig.describe("Between two tries."),
    requestTimeoutMs: durationMsConfig.default(15_000).describe("How long an agent may take to answer."),
    unexportTimeoutMs: durationMsConfig
      .default(2_000)
      .describe("How long a fence waits for the old host to end its export by itself."),
    maxConcurrent: count.default(64).describe("Disks worked on at once."),
    answerMarginMs: durationMsConfig
      .default(250)
      .describe("How long before a call's deadline it is answered that the work goes on."),
  }),
  erase: groupConfig("Erasing dirty devices. How fast a host erases is in its agent's config.", {
    backoff: backoffConfig.describe("Between two tries."),
    requestTimeoutMs: durationMsConfig.default(15_000).describe("How long an agent may take to answer."),
    pollIntervalMs: durationMsConfig.default(200).describe("How often an erase under way is asked after."),
    maxConcurrent: count.default(64).describe("Agents asked at once; an erase goes on between two questions."),
  }),
  paging: pagingConfig,
  watch: groupConfig("Callers of WatchHosts, WatchDevices and WatchDisks.", {
    maxWatchers: count.default(100).describe("Streams at once."),
    maxRememberedChanges: count
      .default(100_000)
      .describe(
        "Changes that watchers of each may lag behind, or resume after; beyond it they are sent a snapshot again.",
      ),
  }),
  events: groupConfig(
    "What ListEvents tells: who did what. An event takes about 0.5 KiB of memory, and of the store.",
    {
      maxCount: count.default(20_000).describe("Events that are kept; beyond it the oldest are dropped."),
      maxRoutineCount: count
        .default(20_000)
        .describe(
          "The same for what happens all the time: what the dispatcher does, erases, and what operators were refused.",
        ),
      maxAgeDays: z.int().min(1).max(3_650).default(90).describe("Events that are older are dropped."),
    },
  ),
  limits: groupConfig("How much the registry keeps account of.", {
    maxHosts: count.default(100_000).describe("Hosts."),
    maxDevicesPerHost: count.default(4_096).describe("Devices of one host."),
    maxExportsPerHost: count.default(4_096).describe("Disks served on one host."),
    maxDisks: count.default(1_000_000).describe("Disks."),
    maxDevicesPerDisk: count.default(256).describe("Devices of one disk."),
    maxLabelsPerDisk: count.default(64).describe("Labels of one disk."),
    maxLabelLength: count.default(1_024).describe("Characters of the name of a label, and of its value."),
    maxTextLength: count.default(4_096).describe("Characters of a message, a reason or an error."),
  }),
  rpc: rpcLimitsConfig({ maxConcurrentCalls: 20_000, maxCallsPerPeer: 5_000 }).describe(
    "Calls at once: as many agents as one registry may have register again after a takeover, at the same moment.",
  ),
});

export type Config = z.output<typeof configSchema>;

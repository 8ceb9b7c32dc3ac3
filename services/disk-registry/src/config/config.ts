import {
  durationMsConfig,
  groupConfig,
  hostPortConfig,
  listenConfig,
  serviceConfig,
  tabletConfig,
  tlsConfig,
} from "@diskmesh/service";
import * as z from "zod";

const count = z.int().min(1).max(10_000_000);

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
  // A healthy host is silent for up to one interval between heartbeats. `findSilent` counts silence towards a mass
  // silence from one interval before the timeout, and healthy hosts must not reach that.
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
  events: groupConfig(
    "What ListEvents tells: who did what. An event takes about 0.5 KiB of memory, and of the store.",
    {
      maxCount: count
        .default(20_000)
        .describe(
          "Events that are kept, and as many again of what happens all the time: what the dispatcher does, erases, and what operators were refused. Beyond it the oldest are dropped.",
        ),
      maxAgeDays: z.int().min(1).max(3_650).default(90).describe("Events that are older are dropped."),
    },
  ),
});

export type Config = z.output<typeof configSchema>;

import {
  durationMsConfig,
  groupConfig,
  hostPortConfig,
  keyPairConfig,
  listenConfig,
  serviceConfig,
  tabletConfig,
  tlsConfig,
  withFacts,
} from "@diskmesh/service";
import * as z from "zod";
import { isSliceSize } from "../model/store/slices.js";

const count = z.int().min(1).max(10_000_000);

const MAX_GRACE_MS = 31_536_000_000;

interface PoolConfig {
  readonly sliceBytes?: number | undefined;
  readonly deleteGraceMs: number;
  readonly keepRepairRoom: boolean;
}

const heartbeatConfig = z
  .strictObject({
    intervalMs: durationMsConfig
      .default(2_000)
      .describe("Interval of agents' heartbeats, and of the checks for silent hosts."),
    timeoutMs: durationMsConfig.default(10_000).describe("Silence after which a host is UNAVAILABLE."),
    missedUntilSuspected: count
      .default(2)
      .describe("Missed heartbeats in a row after which a host is suspected and gets no new disks."),
    probationMs: z
      .int()
      .min(0)
      .max(3_600_000)
      .default(5_000)
      .describe(
        "Time for which a host that was UNAVAILABLE stays WARNING, without new disks, before it is ONLINE; 0 for none.",
      ),
  })
  // A healthy host is silent for up to one heartbeat interval. `findSilent` counts a host towards a mass outage once it
  // is silent for timeoutMs - intervalMs, and a healthy host must stay below that.
  .refine(({ intervalMs, timeoutMs }) => 2 * intervalMs < timeoutMs, "timeoutMs must be more than twice intervalMs")
  .prefault({});

/** The configuration of the disk-registry process. */
export const configSchema = z.strictObject({
  ...serviceConfig,
  listen: listenConfig,
  tls: tlsConfig,
  advertisedAddress: hostPortConfig
    .optional()
    .describe("Address at which others reach this process; `listen` by default."),
  tablet: tabletConfig("registry"),
  heartbeat: heartbeatConfig.describe("Heartbeats of agents, and the handling of silent hosts."),
  unavailableRemovalTimeoutMs: durationMsConfig
    .default(3_600_000)
    .describe(
      "Time that a removal waits for an UNAVAILABLE host before its closing devices count as detached. Only time in which a registry leads and can hear hosts counts, independent of wall clocks.",
    ),
  serialNumbersOfMany: z
    .array(z.string().min(1).max(255))
    .max(10_000)
    .default([])
    .transform((serialNumbers): ReadonlySet<string> => new Set(serialNumbers))
    .describe(
      "Serial numbers that a vendor gave to several drives, so that they identify no drive. Any other serial number on two hosts counts as one shared drive, and one host's device is refused.",
    ),
  join: z
    .strictObject({
      listen: listenConfig.describe(
        "Address at which hosts without a certificate ask for one. It answers that request and nothing else.",
      ),
      authority: keyPairConfig
        .omit({ caFile: true })
        .describe(
          "Authority that signs certificates of joined hosts, and may sign nothing else: the two files that `diskmesh pki host-authority` makes.",
        ),
    })
    .optional()
    .describe("Lets hosts join with a token; without it none can."),
  pools: z
    .record(
      z.string().min(1).max(255),
      z.strictObject({
        sliceBytes: z
          .int()
          .refine(isSliceSize, "must be a power of two from 1 MiB to 16 GiB")
          .optional()
          .describe(
            "Bytes of a slice of devices that are added without a size. By default 64 MiB, and less for devices of less than 64 GiB.",
          ),
        deleteGraceMs: z
          .int()
          .min(0)
          .max(MAX_GRACE_MS)
          .default(0)
          .describe(
            "Time for which the pool's deleted disks are kept, so that `diskmesh undelete DISK` brings them back; 0 for none. A new disk without other room gets their bytes earlier.",
          ),
        keepRepairRoom: z
          .boolean()
          .default(false)
          .describe("Refuses disks, and larger ones, that would leave too few bytes free to empty the largest host."),
      }),
    )
    .default({})
    .transform((pools): Readonly<Record<string, PoolConfig>> => pools)
    .describe(
      "Pools of devices, by their names. `sliceBytes` of a pool is the size of the slices of its devices that are added without one: a power of two from 1 MiB to 16 GiB, by default the smallest one from 1 MiB to 64 MiB with at most 1,024 slices. `deleteGraceMs` is the time for which deleted disks are kept, by default 0. `keepRepairRoom: true` refuses disks that would leave too few bytes free to empty the largest host.",
    ),
  moves: groupConfig("Moves of disks from one device to another.", {
    bytesPerSecondOfHost: withFacts(
      z
        .int()
        .min(0)
        .max(Number.MAX_SAFE_INTEGER)
        .default(0)
        .describe(
          "Maximum bytes per second that moves read from, or write to, the devices of one host. A host takes part in at most two copies at once, or in 16 while these have at most 1 GiB in all; each gets an equal share. 0: unlimited. A reload changes it for running copies.",
        ),
      { reloads: true },
    ),
    failingDevicesOfPools: z
      .array(z.string().min(1).max(255))
      .max(1_000)
      .default([])
      .transform((pools): ReadonlySet<string> => new Set(pools))
      .describe("Pools of which a device that turns WARNING by its own health is left: its disk moves to another one."),
  }),
  events: groupConfig("Event log, read by ListEvents. An event takes about 0.5 KiB of memory, and of the store.", {
    maxCount: count
      .default(20_000)
      .describe(
        "Maximum events kept, and the same number again of routine events: the dispatcher's calls, erases, and refused calls of operators. The oldest are dropped.",
      ),
    maxAgeDays: z.int().min(1).max(3_650).default(90).describe("Maximum age; older events are dropped."),
  }),
});

export type Config = z.output<typeof configSchema>;

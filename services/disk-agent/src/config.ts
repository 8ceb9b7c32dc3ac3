import { MIB_BYTES, parseDeviceId, parseHostId, parseId, parseName, parseOptionalName } from "@diskmesh/domain";
import { driversConfig } from "@diskmesh/driver/host";
import { DEFAULT_AGENT_SERVER_LIMITS } from "@diskmesh/mbus";
import {
  addressesConfig,
  durationMsConfig,
  hostPortConfig,
  listenConfig,
  natsConfig,
  pathConfig,
  rpcLimitsConfig,
  serviceConfig,
  tlsConfig,
} from "@diskmesh/service";
import * as z from "zod";
import { parseGlob } from "./devices/glob.js";

/** A text that a parser of the domain narrows; what the parser throws is the issue. */
function parsed<Narrow>(parse: (value: string) => Narrow) {
  return z.string().transform((value, context) => {
    try {
      return parse(value);
    } catch (error) {
      context.addIssue({ code: "custom", message: (error as Error).message });
      return z.NEVER;
    }
  });
}

const sizeBytes = z.int().min(1).max(Number.MAX_SAFE_INTEGER);

const device = z.strictObject({
  deviceId: parsed(parseDeviceId),
  /** A regular file or a block device. */
  path: pathConfig,
  offsetBytes: z.int().min(0).max(Number.MAX_SAFE_INTEGER).default(0),
  /** All of the file from the offset on when absent. */
  sizeBytes: sizeBytes.optional(),
  blockSizeBytes: z.int().min(512).max(MIB_BYTES).default(4096),
  serialNumber: z.string().max(255).default(""),
  pool: parsed((value) => parseOptionalName("pool", value) ?? "").default(""),
});

type DeviceEntry = z.output<typeof device>;

const devices = z
  .array(device)
  .max(4_096)
  .superRefine((entries, context) => {
    const ids = new Set<string>();
    for (const [index, { deviceId }] of entries.entries()) {
      if (ids.has(deviceId))
        context.addIssue({ code: "custom", path: [index, "deviceId"], message: `${deviceId} is used twice` });
      ids.add(deviceId);
    }
    for (const { index, entry, other } of overlaps(entries))
      context.addIssue({ code: "custom", path: [index], message: `overlaps ${other.deviceId} on ${entry.path}` });
  });

interface Placed {
  readonly index: number;
  readonly entry: DeviceEntry;
}

/** Each device that begins before another one on its path has ended, once: all pairs of thousands would take minutes. */
function* overlaps(entries: readonly DeviceEntry[]): Generator<Placed & { readonly other: DeviceEntry }> {
  const placed = entries.map((entry, index): Placed => ({ index, entry }));
  placed.sort((a, b) => compare(a.entry.path, b.entry.path) || a.entry.offsetBytes - b.entry.offsetBytes);
  let reaching: DeviceEntry | undefined;
  for (const { index, entry } of placed) {
    if (reaching?.path !== entry.path) reaching = undefined;
    const isShared = reaching !== undefined && entry.offsetBytes < endOf(reaching);
    if (reaching !== undefined && isShared && reaching.deviceId !== entry.deviceId)
      yield { index, entry, other: reaching };
    if (reaching === undefined || endOf(entry) > endOf(reaching)) reaching = entry;
  }
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

function endOf({ offsetBytes, sizeBytes = Number.POSITIVE_INFINITY }: DeviceEntry): number {
  return offsetBytes + sizeBytes;
}

const poolRule = z
  .strictObject({
    pool: parsed((value) => parseOptionalName("pool", value) ?? "").default(""),
    /** Files outside of these sizes are not of this pool. */
    minSizeBytes: sizeBytes.default(1),
    maxSizeBytes: sizeBytes.default(Number.MAX_SAFE_INTEGER),
    blockSizeBytes: z.int().min(512).max(MIB_BYTES).default(4096),
    /** Cuts the file into as many devices of this size as it holds; one device when absent. */
    deviceSizeBytes: sizeBytes.optional(),
  })
  .refine(
    ({ minSizeBytes, maxSizeBytes }) => minSizeBytes <= maxSizeBytes,
    "minSizeBytes must not be above maxSizeBytes",
  )
  .refine(
    ({ deviceSizeBytes = 0, blockSizeBytes }) => deviceSizeBytes % blockSizeBytes === 0,
    "deviceSizeBytes must be a multiple of blockSizeBytes",
  );

const discoveryRule = z.strictObject({
  /** An absolute path, with `*`, `?`, `[...]` and `{...}` in any of its parts, e.g. "/dev/disk/by-id/{ata,nvme}-*". */
  glob: parsed(parseGlob),
  /** Begins the ids of the devices that are found, which end with the file's name; the host id when absent. */
  idPrefix: parsed((value) => parseId("idPrefix", value)).optional(),
  maxDevicesPerFile: z.int().min(1).max(4_096).default(256),
  /** The first that a file's size fits counts; a file that fits none is no device. */
  pools: z
    .array(poolRule)
    .min(1)
    .max(100)
    .default([poolRule.parse({})]),
});

const anywhere = ["0.0.0.0", "::"];

export const configSchema = z
  .strictObject({
    ...serviceConfig,
    /** As in the agent's certificate. */
    hostId: parsed(parseHostId),
    az: parsed((value) => parseName("az", value)),
    rack: parsed((value) => parseOptionalName("rack", value) ?? "").default(""),
    listen: listenConfig,
    /** Where other hosts reach this agent, as "address:port"; what it listens on when absent. */
    advertisedAddress: hostPortConfig.optional(),
    tls: tlsConfig,
    /** All registries of which one leads. */
    registry: z.strictObject({ address: addressesConfig }),
    /** Holds the cache, the exports' sockets and the links to them. One agent at a time uses it. */
    baseFolder: pathConfig,
    /**
     * False: device files, and a base folder, on a file system that has no locks are used all the same. Then nothing
     * keeps a second agent, or any other program, from the same bytes.
     */
    requireFileLocks: z.boolean().default(true),
    /** Device files by name. */
    devices: devices.default([]),
    /** Device files that are found. */
    discovery: z
      .strictObject({
        /** How often the agent looks for new files, and for files that were replaced, without being asked. */
        rescanIntervalMs: durationMsConfig.default(15_000),
        rules: z.array(discoveryRule).max(100).default([]),
      })
      .prefault({}),
    /** Small reads of held devices, to find out whether they still answer. */
    probes: z
      .strictObject({
        intervalMs: durationMsConfig.default(10_000),
        /** A read that takes longer makes its device WARNING; an erase with such a write waits for another turn. */
        warningAfterMs: durationMsConfig.default(2_000),
        /** A read that takes longer makes its device ERROR. */
        errorAfterMs: durationMsConfig.default(15_000),
      })
      .refine(
        ({ warningAfterMs, errorAfterMs }) => warningAfterMs < errorAfterMs,
        "warningAfterMs must be below errorAfterMs",
      )
      .prefault({}),
    /** How often the cache is written anew, to find out before an order does whether that works. */
    cacheCheckIntervalMs: durationMsConfig.default(30_000),
    /** Reads, writes, flushes, opens and closes of a device's file that the operating system does not answer. */
    hangs: z
      .strictObject({
        /** One that takes longer makes its device WARNING, until it is answered. */
        warningAfterMs: durationMsConfig.default(30_000),
        /** One that takes longer makes its device ERROR, until it is answered. */
        errorAfterMs: durationMsConfig.default(120_000),
      })
      .refine(
        ({ warningAfterMs, errorAfterMs }) => warningAfterMs < errorAfterMs,
        "warningAfterMs must be below errorAfterMs",
      )
      .prefault({}),
    nats: natsConfig.optional(),
    mbus: z
      .strictObject({
        enabled: z.boolean().default(true),
        heartbeatIntervalMs: durationMsConfig.default(30_000),
        /** Requests that are answered when they are done, at once. */
        maxRunningRequests: z.int().min(1).max(10_000).default(DEFAULT_AGENT_SERVER_LIMITS.maxRunningRequests),
        /** What requests that run or wait may take in all, as they travel. */
        maxRunningRequestBytes: z
          .int()
          .min(MIB_BYTES)
          .max(1024 * MIB_BYTES)
          .default(DEFAULT_AGENT_SERVER_LIMITS.maxRunningRequestBytes),
        /** Tasks that wait for the one that runs. */
        maxWaitingTasks: z.int().min(1).max(10_000).default(DEFAULT_AGENT_SERVER_LIMITS.maxWaitingTasks),
        /** Results of ended tasks that directors may still ask for, and what they may take in all. */
        maxKeptResults: z.int().min(1).max(1_000_000).default(DEFAULT_AGENT_SERVER_LIMITS.maxKeptResults),
        maxKeptResultBytes: z
          .int()
          .min(MIB_BYTES)
          .max(1024 * MIB_BYTES)
          .default(DEFAULT_AGENT_SERVER_LIMITS.maxKeptResultBytes),
      })
      .prefault({}),
    timeouts: z
      .strictObject({
        /** How long an order may take to be answered; what is not done by then is `pending` and goes on. */
        orderTimeoutMs: durationMsConfig.default(1_000),
        /** How long the start waits for slow device files; they go on opening behind it. */
        startOpenTimeoutMs: durationMsConfig.default(3_000),
        /** How long a stop, and the end of an export, wait for I/O under way. */
        drainTimeoutMs: durationMsConfig.default(2_000),
        /** Long enough for its turn among thousands that register at once: giving up sooner costs the registry one more call. */
        registerTimeoutMs: durationMsConfig.default(60_000),
        heartbeatTimeoutMs: durationMsConfig.default(5_000),
        /** How long I/O on another host's device waits for that host. */
        remoteIoTimeoutMs: durationMsConfig.default(30_000),
        nbdNegotiationTimeoutMs: durationMsConfig.default(10_000),
      })
      .prefault({}),
    registration: z
      .strictObject({ minDelayMs: durationMsConfig.default(100), maxDelayMs: durationMsConfig.default(5_000) })
      .prefault({}),
    rpc: rpcLimitsConfig(),
    /** Vendors' drivers whose methods this host has. */
    drivers: driversConfig,
    limits: z
      .strictObject({
        /** Listed and found together. */
        maxDevices: z.int().min(1).max(4_096).default(4_096),
        maxDevicesPerOrder: z.int().min(1).max(100_000).default(10_000),
        maxExtentsPerExport: z.int().min(1).max(10_000).default(1_000),
        maxInFlightIoPerDevice: z.int().min(1).max(1024).default(16),
        maxInFlightPerStream: z.int().min(1).max(1024).default(16),
        blockIoChunkBytes: z
          .int()
          .min(4096)
          .max(64 * MIB_BYTES)
          .default(MIB_BYTES),
        eraseChunkBytes: z
          .int()
          .min(4096)
          .max(64 * MIB_BYTES)
          .default(MIB_BYTES),
        /** Devices erased at once; others wait for their turn. */
        maxConcurrentErases: z.int().min(1).max(4_096).default(4),
        /** Written by all erases of the host together. */
        maxEraseBytesPerSecond: z
          .int()
          .min(MIB_BYTES)
          .max(Number.MAX_SAFE_INTEGER)
          .default(256 * MIB_BYTES),
        maxNbdConnections: z.int().min(1).max(1024).default(16),
        maxInFlightNbdRequests: z.int().min(1).max(1024).default(64),
        maxInFlightNbdBytes: z
          .int()
          .min(4096)
          .default(64 * MIB_BYTES),
        maxEndedExports: z.int().min(1).max(100_000).default(1_000),
      })
      .prefault({}),
  })
  .refine(({ listen, advertisedAddress }) => advertisedAddress !== undefined || !anywhere.includes(listen.host), {
    path: ["advertisedAddress"],
    message: "give one: nobody can reach the address that the agent listens on",
  });

export type AgentConfig = z.output<typeof configSchema>;

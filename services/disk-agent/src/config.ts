import { statSync } from "node:fs";
import {
  MIB_BYTES,
  messageOf,
  parseDeviceId,
  parseDevicePath,
  parseHostId,
  parseId,
  parseName,
  parseOptionalName,
} from "@diskmesh/domain";
import { driversConfig } from "@diskmesh/driver/host";
import { DEFAULT_AGENT_SERVER_LIMITS } from "@diskmesh/mbus";
import {
  addressesConfig,
  durationMsConfig,
  groupConfig,
  hostPortConfig,
  listenConfig,
  natsConfig,
  pathConfig,
  rpcLimitsConfig,
  serviceConfig,
  tlsConfig,
  withFacts,
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

const deviceKeys = z.strictObject({
  deviceId: parsed(parseDeviceId).describe("What the registry calls it."),
  path: pathConfig.superRefine(requireDevicePath).describe("A regular file or a block device."),
  offsetBytes: z.int().min(0).max(Number.MAX_SAFE_INTEGER).default(0).describe("Where in the file the device begins."),
  sizeBytes: sizeBytes.optional().describe("All of the file from the offset on when absent."),
  blockSizeBytes: z.int().min(512).max(MIB_BYTES).default(4096).describe("The smallest part that is read or written."),
  serialNumber: z
    .string()
    .max(255)
    .default("")
    .describe(
      "A check: a drive of which the kernel reports another one is refused. What the kernel does not report identifies nothing.",
    ),
  pool: parsed((value) => parseOptionalName("pool", value) ?? "")
    .default("")
    .describe("Disks name the pool of the devices that they want."),
});

type DeviceEntry = z.output<typeof deviceKeys>;

const device = withFacts(deviceKeys, { checkFiles: problemsOfDeviceFile });

function requireDevicePath(path: string, context: z.RefinementCtx<string>): void {
  try {
    parseDevicePath(path);
  } catch (error) {
    context.addIssue({ code: "custom", message: messageOf(error) });
  }
}

/** Says nothing of a file that cannot be looked at: it may be there when the agent runs. */
function problemsOfDeviceFile({ path, offsetBytes, sizeBytes }: DeviceEntry): string[] {
  const size = sizeBytes === undefined ? fileSize(path) : 0n;
  if (size - BigInt(offsetBytes) <= BigInt(Number.MAX_SAFE_INTEGER)) return [];
  return [`${JSON.stringify(path)} holds ${size} bytes, and a device may have 2^53 - 1 at most: give sizeBytes`];
}

function fileSize(path: string): bigint {
  try {
    return statSync(path, { bigint: true }).size;
  } catch {
    return 0n;
  }
}

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
    pool: parsed((value) => parseOptionalName("pool", value) ?? "")
      .default("")
      .describe("Disks name the pool of the devices that they want."),
    minSizeBytes: sizeBytes.default(1).describe("Files outside of these sizes are not of this pool."),
    maxSizeBytes: sizeBytes.default(Number.MAX_SAFE_INTEGER).describe("The largest file of this pool."),
    blockSizeBytes: z
      .int()
      .min(512)
      .max(MIB_BYTES)
      .default(4096)
      .describe("The smallest part that is read or written."),
    deviceSizeBytes: sizeBytes
      .optional()
      .describe("Cuts the file into as many devices of this size as it holds; one device when absent."),
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
  glob: parsed(parseGlob).describe(
    'An absolute path, with `*`, `?`, `[...]` and `{...}` in any of its parts, e.g. "/dev/disk/by-id/{ata,nvme}-*".',
  ),
  idPrefix: parsed((value) => parseId("idPrefix", value))
    .optional()
    .describe("Begins the ids of the devices that are found, which end with the file's name; the host id when absent."),
  maxDevicesPerFile: z
    .int()
    .min(1)
    .max(4_096)
    .default(256)
    .describe("Devices of one file; what is left of it is of no use."),
  pools: z
    .array(poolRule)
    .min(1)
    .max(100)
    .default([poolRule.parse({})])
    .describe("The first that a file's size fits counts; a file that fits none is no device."),
});

const anywhere = ["0.0.0.0", "::"];

export const configSchema = z
  .strictObject({
    ...serviceConfig,
    hostId: parsed(parseHostId).describe("As in the agent's certificate."),
    az: parsed((value) => parseName("az", value)).describe("The availability zone that the host is in."),
    rack: parsed((value) => parseOptionalName("rack", value) ?? "")
      .default("")
      .describe("The rack that the host is in: devices of several racks fail less often together."),
    listen: listenConfig,
    advertisedAddress: hostPortConfig
      .optional()
      .describe('Where other hosts reach this agent, as "address:port"; what it listens on when absent.'),
    tls: tlsConfig,
    registry: z
      .strictObject({
        address: addressesConfig.describe("Where it is reached: one, or a list of those of which one leads."),
      })
      .describe("All registries of which one leads."),
    baseFolder: pathConfig.describe(
      "Holds the cache, the exports' sockets and the links to them. One agent at a time uses it.",
    ),
    requireFileLocks: z
      .boolean()
      .default(true)
      .describe(
        "False: device files, and a base folder, on a file system that has no locks are used all the same. Then nothing keeps a second agent, or any other program, from the same bytes.",
      ),
    devices: devices.default([]).describe("Device files by name."),
    discovery: groupConfig("Device files that are found.", {
      rescanIntervalMs: durationMsConfig
        .default(15_000)
        .describe(
          "How often the agent looks for new files, for files that were replaced, and for sockets of exports that were removed, without being asked.",
        ),
      rules: z.array(discoveryRule).max(100).default([]).describe("Which files are devices."),
    }),
    probes: z
      .strictObject({
        intervalMs: durationMsConfig.default(10_000).describe("How often each device is read."),
        warningAfterMs: durationMsConfig
          .default(2_000)
          .describe(
            "A read that takes longer makes its device WARNING; an erase with such a write waits for another turn.",
          ),
        errorAfterMs: durationMsConfig.default(15_000).describe("A read that takes longer makes its device ERROR."),
      })
      .refine(
        ({ warningAfterMs, errorAfterMs }) => warningAfterMs < errorAfterMs,
        "warningAfterMs must be below errorAfterMs",
      )
      .prefault({})
      .describe("Small reads of held devices, to find out whether they still answer."),
    cacheCheckIntervalMs: durationMsConfig
      .default(30_000)
      .describe("How often the cache is written anew, to find out before an order does whether that works."),
    hangs: z
      .strictObject({
        warningAfterMs: durationMsConfig
          .default(30_000)
          .describe("One that takes longer makes its device WARNING, until it is answered."),
        errorAfterMs: durationMsConfig
          .default(120_000)
          .describe("One that takes longer makes its device ERROR, until it is answered."),
      })
      .refine(
        ({ warningAfterMs, errorAfterMs }) => warningAfterMs < errorAfterMs,
        "warningAfterMs must be below errorAfterMs",
      )
      .prefault({})
      .describe(
        "Reads, writes, flushes, opens and closes of a device's file that the operating system does not answer.",
      ),
    nats: natsConfig.optional(),
    mbus: groupConfig("Director and agent talk over NATS, where `nats` is given.", {
      enabled: z.boolean().default(true).describe("False: the host is no VM of a director."),
      heartbeatIntervalMs: durationMsConfig.default(30_000).describe("How often the director hears of this agent."),
      maxRunningRequests: z
        .int()
        .min(1)
        .max(10_000)
        .default(DEFAULT_AGENT_SERVER_LIMITS.maxRunningRequests)
        .describe("Requests that are answered when they are done, at once."),
      maxRunningRequestBytes: z
        .int()
        .min(MIB_BYTES)
        .max(1024 * MIB_BYTES)
        .default(DEFAULT_AGENT_SERVER_LIMITS.maxRunningRequestBytes)
        .describe("What requests that run or wait may take in all, as they travel."),
      maxWaitingTasks: z
        .int()
        .min(1)
        .max(10_000)
        .default(DEFAULT_AGENT_SERVER_LIMITS.maxWaitingTasks)
        .describe("Tasks that wait for the one that runs."),
      maxKeptResults: z
        .int()
        .min(1)
        .max(1_000_000)
        .default(DEFAULT_AGENT_SERVER_LIMITS.maxKeptResults)
        .describe("Results of ended tasks that directors may still ask for, and what they may take in all."),
      maxKeptResultBytes: z
        .int()
        .min(MIB_BYTES)
        .max(1024 * MIB_BYTES)
        .default(DEFAULT_AGENT_SERVER_LIMITS.maxKeptResultBytes)
        .describe("What these results may take in all."),
    }),
    timeouts: groupConfig("How long things may take.", {
      orderTimeoutMs: durationMsConfig
        .default(1_000)
        .describe("How long an order may take to be answered; what is not done by then is `pending` and goes on."),
      startOpenTimeoutMs: durationMsConfig
        .default(3_000)
        .describe("How long the start waits for slow device files; they go on opening behind it."),
      drainTimeoutMs: durationMsConfig
        .default(2_000)
        .describe("How long a stop, and the end of an export, wait for I/O under way."),
      registerTimeoutMs: durationMsConfig
        .default(60_000)
        .describe(
          "Long enough for its turn among thousands that register at once: giving up sooner costs the registry one more call.",
        ),
      heartbeatTimeoutMs: durationMsConfig
        .default(5_000)
        .describe("How long the registry may take to answer a heartbeat."),
      remoteIoTimeoutMs: durationMsConfig
        .default(30_000)
        .describe(
          "How long I/O waits for a device that cannot be used now, or for another host that has it; then EIO.",
        ),
      nbdNegotiationTimeoutMs: durationMsConfig
        .default(10_000)
        .describe("How long a program that connects to a disk may take to say what it wants."),
    }),
    registration: groupConfig("Between two tries to register.", {
      minDelayMs: durationMsConfig.default(100).describe("The first wait."),
      maxDelayMs: durationMsConfig.default(5_000).describe("The longest wait: each is about twice the one before."),
    }),
    rpc: rpcLimitsConfig(),
    drivers: driversConfig.describe("Vendors' drivers whose methods this host has."),
    limits: groupConfig("How much the agent does and holds at once.", {
      maxDevices: z.int().min(1).max(4_096).default(4_096).describe("Listed and found together."),
      maxDevicesPerOrder: z.int().min(1).max(100_000).default(10_000).describe("Devices that one order may name."),
      maxExtentsPerExport: z
        .int()
        .min(1)
        .max(10_000)
        .default(1_000)
        .describe("Parts of devices that one disk may be made of."),
      maxInFlightIoPerDevice: z
        .int()
        .min(1)
        .max(1024)
        .default(16)
        .describe("Reads and writes of one device at once; others wait."),
      maxInFlightPerStream: z
        .int()
        .min(1)
        .max(1024)
        .default(16)
        .describe("Requests at once of one disk to a device of another host."),
      blockIoChunkBytes: z
        .int()
        .min(4096)
        .max(64 * MIB_BYTES)
        .default(MIB_BYTES)
        .describe("What a request to a device of another host carries at most."),
      eraseChunkBytes: z
        .int()
        .min(4096)
        .max(64 * MIB_BYTES)
        .default(MIB_BYTES)
        .describe("What one write of an erase covers."),
      maxConcurrentErases: z
        .int()
        .min(1)
        .max(4_096)
        .default(4)
        .describe("Devices erased at once; others wait for their turn."),
      maxEraseBytesPerSecond: z
        .int()
        .min(MIB_BYTES)
        .max(Number.MAX_SAFE_INTEGER)
        .default(256 * MIB_BYTES)
        .describe("Written by all erases of the host together."),
      maxNbdConnections: z.int().min(1).max(1024).default(16).describe("Programs that have one disk open at once."),
      maxInFlightNbdRequests: z
        .int()
        .min(1)
        .max(1024)
        .default(64)
        .describe("Requests of one such program at once; others wait."),
      maxInFlightNbdBytes: z
        .int()
        .min(4096)
        .default(64 * MIB_BYTES)
        .describe("What these requests may carry in all."),
      maxEndedExports: z
        .int()
        .min(1)
        .max(100_000)
        .default(1_000)
        .describe("Disks that were served here of which the end is remembered."),
    }),
  })
  .refine(({ listen, advertisedAddress }) => advertisedAddress !== undefined || !anywhere.includes(listen.host), {
    path: ["advertisedAddress"],
    message: "give one: nobody can reach the address that the agent listens on",
  });

export type AgentConfig = z.output<typeof configSchema>;

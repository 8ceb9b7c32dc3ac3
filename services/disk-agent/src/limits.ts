import { MIB_BYTES } from "@diskmesh/domain";
import { DRIVER_LIMITS } from "@diskmesh/driver/host";

/** Limits and times of an agent that no operator sets. */
export const AGENT_LIMITS = {
  /** A look for new and replaced files, and for sockets of exports that were removed: costs a stat for each file. */
  rescanIntervalMs: 15_000,
  /** The cache is written so often without need, so that a full disk is found before an order meets it. */
  cacheCheckIntervalMs: 30_000,
  /** A small read of each held device. */
  probeIntervalMs: 10_000,
  /** Makes a device WARNING: a healthy drive answers in milliseconds, a busy one within a second. */
  probeWarningAfterMs: 2_000,
  /** Makes a device ERROR. */
  probeErrorAfterMs: 15_000,
  /** Any other operation on a device's file: the kernel itself retries a drive for half a minute. */
  hangs: { warningAfterMs: 30_000, errorAfterMs: 120_000 },

  /** What an order has not done by then is `pending` and goes on: the registry asks again. */
  orderTimeoutMs: 1_000,
  /** The start waits so long for slow device files, which go on opening behind it. */
  startOpenTimeoutMs: 3_000,
  /** A stop, and the end of an export, wait so long for I/O under way: below the 4.5 s that a whole stop may take. */
  drainTimeoutMs: 2_000,
  /** Long enough for a turn among thousands that register at once: giving up sooner costs the registry one more call. */
  registerTimeoutMs: 60_000,
  /** Half of the silence after which a host is UNAVAILABLE by default. */
  heartbeatTimeoutMs: 5_000,
  /** Between two tries to register: an agent that waited longer could be silent for too long. */
  registration: { minDelayMs: 100, maxDelayMs: 5_000 },
  /** The director takes an agent for lost after several of these. */
  mbusHeartbeatIntervalMs: 30_000,

  maxDevices: 4_096,
  /** What is left of a file is of no use: it was most likely cut too small. */
  maxDevicesPerFile: 256,
  /** Above the devices that a host may have. */
  maxDevicesPerOrder: 10_000,
  maxExtentsPerExport: 1_000,
  /** Reads and writes of one device at once; others wait, so that a slow device leaves most of the 64 I/O threads alone. */
  maxInFlightIoPerDevice: 16,
  /** Requests at once of one disk to a device of another host. */
  maxInFlightPerStream: 16,
  /** What a request to a device of another host carries at most; a message of gRPC holds 4 MiB. */
  blockIoChunkBytes: MIB_BYTES,
  /** What one write of an erase covers. */
  eraseChunkBytes: MIB_BYTES,
  /** Devices erased at once; others wait for their turn. */
  maxConcurrentErases: 4,
  /** Programs that have one disk open at once. */
  maxNbdConnections: 16,
  /** Requests of one such program at once, and what they may carry in all; others wait. */
  maxInFlightNbdRequests: 64,
  maxInFlightNbdBytes: 64 * MIB_BYTES,
  nbdNegotiationTimeoutMs: 10_000,
  /** Disks that were served here of which the end is remembered. */
  maxEndedExports: 1_000,

  drivers: DRIVER_LIMITS,
};

export type AgentLimits = Readonly<typeof AGENT_LIMITS>;

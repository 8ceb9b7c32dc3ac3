import { MIB_BYTES } from "@diskmesh/domain";
import { DRIVER_LIMITS } from "@diskmesh/driver/host";

/** Limits and times of an agent that are not configurable. */
export const AGENT_LIMITS = {
  /** Interval of checks for new and replaced files, and for removed sockets of exports; costs a stat for each file. */
  rescanIntervalMs: 15_000,
  /** Interval of test writes of the cache, which find a full disk before an order needs the space. */
  cacheCheckIntervalMs: 30_000,
  /** Interval of a small read of each held device. */
  probeIntervalMs: 10_000,
  /**
   * Duration of a read that makes a device WARNING: a healthy drive answers in milliseconds, a busy one within a
   * second.
   */
  probeWarningAfterMs: 2_000,
  /** Duration of a read that makes a device ERROR. */
  probeErrorAfterMs: 15_000,
  /** Durations of any other system call on a device's file: the kernel itself retries a drive for half a minute. */
  hangs: { warningAfterMs: 30_000, errorAfterMs: 120_000 },

  /** Answer timeout of an order. Unfinished work is answered `pending` and continues; the registry asks again. */
  orderTimeoutMs: 1_000,
  /** Maximum wait of the start for slow device files, whose opens continue in the background. */
  startOpenTimeoutMs: 3_000,
  /** Maximum wait of a stop, and of an export's end, for running I/O: below the 4.5 s of a whole stop. */
  drainTimeoutMs: 2_000,
  /** Long enough when thousands register at once: an earlier timeout would cost the registry another call. */
  registerTimeoutMs: 60_000,
  /** Half of the silence after which a host is UNAVAILABLE by default. */
  heartbeatTimeoutMs: 5_000,
  /** Delay between two tries to register. A longer delay could make the host UNAVAILABLE. */
  registration: { minDelayMs: 100, maxDelayMs: 5_000 },
  /** The director counts an agent as lost after it missed several of these. */
  mbusHeartbeatIntervalMs: 30_000,

  maxDevices: 4_096,
  /** A file that would hold more devices most likely has too small a configured device size; its other bytes are unused. */
  maxDevicesPerFile: 256,
  /** Larger than maxDevices, so that one order can name every device of a host. */
  maxDevicesPerOrder: 10_000,
  maxExtentsPerExport: 1_000,
  /**
   * Maximum concurrent reads and writes of one device; others wait, so that a slow device leaves most of the 64 I/O
   * threads free.
   */
  maxInFlightIoPerDevice: 16,
  /** Maximum concurrent requests of one disk to a device of another host. */
  maxInFlightPerStream: 16,
  /** Maximum bytes of a request to a device of another host; a gRPC message holds 4 MiB. */
  blockIoChunkBytes: MIB_BYTES,
  /** Bytes in one write of an erase. */
  eraseChunkBytes: MIB_BYTES,
  /** Maximum devices erased at once; others wait. */
  maxConcurrentErases: 4,
  /** Maximum programs that have one disk open at once. */
  maxNbdConnections: 16,
  /** Maximum concurrent requests of one such program, and their total bytes; others wait. */
  maxInFlightNbdRequests: 64,
  maxInFlightNbdBytes: 64 * MIB_BYTES,
  nbdNegotiationTimeoutMs: 10_000,
  /** Maximum disks whose ended exports are remembered one by one. */
  maxEndedExports: 1_000,

  drivers: DRIVER_LIMITS,
};

export type AgentLimits = Readonly<typeof AGENT_LIMITS>;

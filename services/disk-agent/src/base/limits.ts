import { MIB_BYTES } from "@diskmesh/domain";
import { DRIVER_LIMITS } from "@diskmesh/driver/host";

/** Limits and times of an agent that are not configurable. */
export const AGENT_LIMITS = {
  /** Interval of checks for new and replaced files, and for removed sockets of exports; costs a stat for each file. */
  rescanIntervalMs: 15_000,
  /** Interval of test writes of the cache, which find a full disk before an order needs the space. */
  cacheCheckIntervalMs: 20_000,
  /** Interval in ms of the probes, a small read of each held device. */
  probeIntervalMs: 10_000,
  /**
   * Durations in ms of a probe's read that make a device WARNING or ERROR: a healthy drive answers in milliseconds, a busy
   * one within a second.
   */
  probes: { warningAfterMs: 2_000, errorAfterMs: 15_000 },
  /**
   * Durations in ms of any other system call that make its device WARNING or ERROR. The kernel itself retries a drive
   * for half a minute.
   */
  hangs: { warningAfterMs: 30_000, errorAfterMs: 120_000 },

  /**
   * Answer timeout of an order in ms. Unfinished work continues and is answered `pending`; the registry sends the order
   * again.
   */
  orderTimeoutMs: 1_000,
  /** Maximum wait of the start for slow device files, and for an export that hangs; both continue in the background. */
  startOpenTimeoutMs: 3_000,
  /** Maximum wait in ms for running I/O at a stop and at an export's end. Must be below the 4.5 s of a whole stop. */
  drainTimeoutMs: 2_000,
  /**
   * Registration timeout in ms; long, because thousands of agents may register at once and a retry would add another
   * call.
   */
  registerTimeoutMs: 60_000,
  /** Heartbeat timeout in ms: half of the silence after which a host is UNAVAILABLE by default. */
  heartbeatTimeoutMs: 5_000,
  /** Time in ms without an answer of a registry after which this agent follows a rebuilt one. */
  registrySilenceMs: 30_000,
  /** Delay between two tries to register. A longer delay could make the host UNAVAILABLE. */
  registration: { minDelayMs: 100, maxDelayMs: 5_000 },
  /** Interval in ms of heartbeats to the director, which counts an agent as lost after several missed ones. */
  mbusHeartbeatIntervalMs: 30_000,

  maxDevices: 4_096,
  /**
   * Maximum devices that a discovery rule cuts a file into. More most likely means that the configured device size is
   * too small.
   */
  maxDevicesPerFile: 256,
  /** Maximum devices in one order. Larger than `maxDevices` of a host, so that one order can name every device. */
  maxDevicesPerOrder: 10_000,
  maxExtentsPerExport: 1_000,
  /**
   * Maximum concurrent reads and writes of one device; others wait, so that a slow device leaves most of the 64 I/O
   * threads free.
   */
  maxInFlightIoPerDevice: 16,
  /** Maximum concurrent requests of one disk to a device of another host. */
  maxInFlightPerLink: 16,
  /** Maximum bytes of one read or write request to a device of another host. */
  linkChunkBytes: MIB_BYTES,
  /** Size in bytes of one write of an erase. */
  eraseChunkBytes: MIB_BYTES,
  /** Maximum devices erased at once; others wait. */
  maxConcurrentErases: 4,
  /** A copy flushes its target after so many bytes, which a drive writes in a second. */
  copy: { chunkBytes: MIB_BYTES, maxInFlight: 4, flushEveryBytes: 64 * MIB_BYTES },
  /** Time in ms after which a move gives up a target without an answer: long for a drive, short for who waits. */
  mirrorTargetTimeoutMs: 15_000,
  /** Maximum NBD connections to one disk. */
  maxNbdConnections: 16,
  /** Maximum concurrent requests of one NBD connection, and their total bytes; others wait. */
  maxInFlightNbdRequests: 64,
  maxInFlightNbdBytes: 64 * MIB_BYTES,
  nbdNegotiationTimeoutMs: 10_000,
  /** Maximum ended exports that are remembered one by one. */
  maxEndedExports: 1_000,

  drivers: DRIVER_LIMITS,
};

export type AgentLimits = Readonly<typeof AGENT_LIMITS>;

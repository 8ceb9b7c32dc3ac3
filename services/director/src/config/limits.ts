import { MIB_BYTES } from "@diskmesh/domain";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const GIB_BYTES = 1024 * MIB_BYTES;

/** Task queues. A queue with long tasks does not delay the other queues. */
const queues = {
  /**
   * Concurrent tasks per set of CPIs. Tasks whose CPIs answer do not wait for tasks whose CPI hangs. A dynamic disk
   * task mostly waits for a CPI and an agent; a deploy plans with all of its instances.
   */
  workers: { urgent: 4, normal: 4, dynamic_disks: 16, vendor_methods: 8 },
  /**
   * Unended tasks, which are kept in memory; tasks of the normal queue hold manifests of up to 1 MiB. The last sixth is
   * reserved for tasks with CPIs that hardly any other task uses. One login may hold half of vendor_methods.
   */
  queueLengths: { urgent: 1_000, normal: 200, dynamic_disks: 10_000, vendor_methods: 10_000 },
  /**
   * Time for a task from the moment when a worker takes the task. Longer than the longest uninterruptible act of a task
   * (see time-limits.ts) and, for vendor methods, than `asyncTimeoutMs` of DRIVER_LIMITS, the limit of agents.
   */
  timeoutsMs: { urgent: HOUR_MS, normal: 24 * HOUR_MS, dynamic_disks: HOUR_MS, vendor_methods: 24 * HOUR_MS },
};

/** The HTTPS API. */
const http = {
  /** Time for the headers of a request, because a slow client holds one of the connections. */
  headersTimeoutMs: 10_000,
  /** Time for a request to arrive and its answer to begin. Long routes and uploads have their own limits. */
  requestTimeoutMs: 30_000,
  /** Maximum wait of a request while no director leads. Longer than a takeover. */
  leaderWaitMs: 15_000,
  /** Maximum wait of a stop for running requests. Less than half of the process's stop timeout. */
  drainTimeoutMs: 2_000,
};

const tasks = {
  /** Ended tasks that are kept with their outputs. */
  maxKeptTasks: 2_000,
  /** Progress lines of one task. */
  maxEventsPerTask: 10_000,
  /** Lines of the CPI and debug outputs of one task. */
  maxOutputLinesPerTask: 100_000,
  /** Size of each output of a task: events, CPI output, debug output. */
  maxOutputBytesPerTask: 16 * MIB_BYTES,
  /** Size of the outputs of all ended tasks. The oldest tasks are deleted beyond it. */
  maxKeptOutputBytes: 4 * GIB_BYTES,
  /** Size of the output lines of all tasks that wait in memory for storage. Further lines are lost. */
  maxWaitingOutputBytes: 64 * MIB_BYTES,
  /** A call with `wait` is answered this long before its deadline, so that the answer arrives in time. */
  answerMarginMs: 500,
};

/** Host agents, and the registries that know their addresses. */
const nodes = {
  requestTimeoutMs: 10_000,
  /**
   * Time for a synchronous method of a node. Longer than the agent's limit of 20 s (`syncTimeoutMs` of DRIVER_LIMITS).
   */
  callTimeoutMs: 30_000,
  /** Cache lifetime of an agent's address and methods, unless the agent reports a change. */
  knownForMs: 30_000,
  /** Cached connections to agents. */
  maxConnections: 1_000,
};

/** Calls of CPIs through the dispatchers. */
const cpi = {
  /** Retry time after a transient failure of a call. Longer than a restart of a dispatcher. */
  retryTimeoutMs: MINUTE_MS,
  /**
   * Time for a dispatcher to end a cancelled or lost call. Longer than the 2 s that the dispatcher gives the CPI to
   * clean up.
   */
  endTimeoutMs: 10_000,
};

/** Uploads of stemcells. */
const stemcells = {
  /** Size of the tgz. Public BOSH stemcells have less than 2 GiB. */
  maxUploadBytes: 8 * GIB_BYTES,
  /** Total unpacked size, so that a small file cannot fill the disk. */
  maxUnpackedBytes: 32 * GIB_BYTES,
  /** Entries of the tgz. BOSH stemcells have fewer than ten. */
  maxEntries: 100,
  /** Concurrent uploads. Each may take `maxUnpackedBytes` of the disk. */
  maxConcurrentUploads: 4,
  /** Time for the next bytes of an upload. */
  idleTimeoutMs: MINUTE_MS,
  downloadTimeoutMs: HOUR_MS,
  /** Time for a CPI to create a stemcell. Equals the dispatcher's time for create_stemcell. */
  createTimeoutMs: HOUR_MS,
};

/** The bosh-registry HTTP API. */
const boshRegistry = {
  /** Size of the settings of one VM. */
  maxSettingsBytes: MIB_BYTES,
  /** VMs with stored settings. The limit bounds storage when a CPI never deletes settings. */
  maxInstances: 10_000,
  /** Time for a request to arrive and be answered. */
  requestTimeoutMs: 30_000,
  /** Concurrent connections. Further connections are closed. */
  maxConnections: 1_000,
};

/** VM agents. */
const agents = {
  /** Time for an agent to answer a request. Equals the limit of BOSH's director. */
  requestTimeoutMs: 45_000,
  /** Poll interval for the result of an agent's task. */
  taskPollIntervalMs: 20,
  /** Interval of the check for agent certificates that are due. */
  certificateCheckIntervalMs: MINUTE_MS,
  /**
   * A deploy recreates the VM of an agent that does not answer for this long. The CPI has the same time to report that
   * the VM does not exist.
   */
  lostAfterMs: 45_000,
  /** An agent without a heartbeat for this long is listed as unresponsive. BOSH agents send heartbeats every 30 s. */
  unresponsiveAfterMs: 90_000,
  /** Interval at which reported health is recorded for the next leader. */
  healthRecordIntervalMs: 5 * MINUTE_MS,
  /** VMs that a deploy checks concurrently. */
  maxConcurrentChecks: 16,
  /** Time for notifying an agent of an attached disk. */
  attachTimeoutMs: MINUTE_MS,
  /** Maximum delay of a detach by an agent that does not answer. */
  detachTimeoutMs: 10_000,
};

/** Logs fetched from agents. */
const agentLogs = {
  /** Time for an agent to pack and send its logs. */
  timeoutMs: 15 * MINUTE_MS,
  /** Size of the packed logs of one agent. */
  maxBytesPerAgent: GIB_BYTES,
  /** Size of all stored and incoming logs. The oldest are deleted beyond it. */
  maxKeptBytes: 8 * GIB_BYTES,
  /** Retention of logs. Clients fetch logs at once. */
  keptMs: HOUR_MS,
};

/** Automatic recreation of missing VMs. */
const resurrection = {
  /** Silence of an agent before the CPI is asked whether the VM exists: four heartbeats of BOSH agents. */
  silentAfterMs: 2 * MINUTE_MS,
  /** Silence of an agent after which its VM is recreated even if the CPI reports the VM. */
  deadAfterMs: 10 * MINUTE_MS,
  /** Interval of the check for silent agents. */
  checkIntervalMs: 5_000,
};

/** The web page. */
const page = {
  /** Concurrent browser connections. One login may hold half of them. */
  maxViewers: 50,
  /** Minimum interval between updates to a browser. */
  sendIntervalMs: 250,
  /** Keepalive interval of a browser connection. */
  beatIntervalMs: 5_000,
  /** A task that waits this long for a worker or a CPI's answer is shown as stuck. */
  stuckAfterMs: MINUTE_MS,
  /** Time for which rows stay up to date after the last viewer left, so that a page reload finds them. */
  lingerMs: 10_000,
};

/**
 * Times and sizes that the director enforces and operators cannot set, because no fleet needs other values. Tests pass
 * shorter and smaller limits to `startDirector`. Limits that tests do not change are defined beside the code that
 * enforces them.
 */
export const DIRECTOR_LIMITS = {
  http,
  queues,
  /** Time for a task to acquire the lock of an instance or a disk before the task fails. */
  lockAcquireTimeoutMs: MINUTE_MS,
  tasks,
  /** Retained events, with a tolerance of a tenth. The oldest are deleted beyond it. */
  maxEvents: 100_000,
  nodes,
  cpi,
  stemcells,
  boshRegistry,
  agents,
  agentLogs,
  resurrection,
  page,
  /**
   * Recorded VMs and disks that CPIs may have created without the director's knowledge. The oldest records are deleted
   * beyond it.
   */
  maxPossibleOrphans: 10_000,
};

export type DirectorLimits = typeof DIRECTOR_LIMITS;

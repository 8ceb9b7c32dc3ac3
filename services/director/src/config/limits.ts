import { MIB_BYTES } from "@diskmesh/domain";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const GIB_BYTES = 1024 * MIB_BYTES;

/** Task queues. A queue with long tasks does not delay the other queues. */
const queues = {
  /**
   * Maximum number of concurrent tasks per queue and set of CPIs, so that a hanging CPI delays only tasks with the same
   * set. A dynamic disk task mostly waits for a CPI and an agent, so many may run. A deploy plans with all of its
   * instances, so few may run.
   */
  workers: { urgent: 4, normal: 4, dynamic_disks: 16, vendor_methods: 8 },
  /**
   * Maximum number of unended tasks per queue. Unended tasks are kept in memory, and a task of the normal queue holds a
   * manifest of up to 1 MiB. The last sixth of the places is reserved for sets of CPIs with fewer than two unended
   * tasks. One login may hold half of the places of vendor_methods.
   */
  queueLengths: { urgent: 1_000, normal: 200, dynamic_disks: 10_000, vendor_methods: 10_000 },
  /**
   * Maximum duration of a task, counted from the moment when a worker takes the task. Exceeds the longest
   * uninterruptible action of a task (see time-limits.ts). For vendor methods it also exceeds `asyncTimeoutMs` of
   * DRIVER_LIMITS, the limit of agents.
   */
  timeoutsMs: { urgent: HOUR_MS, normal: 24 * HOUR_MS, dynamic_disks: HOUR_MS, vendor_methods: 24 * HOUR_MS },
};

/** The HTTPS API. */
const http = {
  /** Maximum time for the headers of a request to arrive, because a slow client holds one of the connections. */
  headersTimeoutMs: 10_000,
  /** Maximum time for a request to arrive and its response to begin. Long routes and uploads have their own limits. */
  requestTimeoutMs: 30_000,
  /** Maximum wait of a request while no director leads. Longer than a takeover. */
  leaderWaitMs: 15_000,
  /**
   * Maximum time for which a stopping director waits for running requests. Less than half of the process's stop
   * timeout.
   */
  drainTimeoutMs: 2_000,
};

const tasks = {
  /** Maximum number of ended tasks that are kept with their outputs. */
  maxKeptTasks: 2_000,
  /** Maximum number of progress lines of one task. */
  maxEventsPerTask: 10_000,
  /** Maximum number of lines of a task's CPI output, and of its debug output. */
  maxOutputLinesPerTask: 100_000,
  /** Maximum size of each output of a task: events, CPI output, debug output. */
  maxOutputBytesPerTask: 16 * MIB_BYTES,
  /** Maximum total size of the outputs of ended tasks. The oldest tasks are deleted beyond it. */
  maxKeptOutputBytes: 4 * GIB_BYTES,
  /**
   * Maximum size of output lines, over all tasks, that are buffered in memory until they are stored. Lines beyond it
   * are dropped.
   */
  maxWaitingOutputBytes: 64 * MIB_BYTES,
  /** A call with `wait` is answered this long before its deadline, so that the answer arrives in time. */
  answerMarginMs: 500,
};

/** Host agents, and the registries that know their addresses. */
const nodes = {
  requestTimeoutMs: 10_000,
  /**
   * Timeout of a synchronous method of a node. Longer than the agent's limit of 20 s (`syncTimeoutMs` of
   * DRIVER_LIMITS).
   */
  callTimeoutMs: 30_000,
  /** Cache lifetime of an agent's address and methods, unless the agent reports a change. */
  knownForMs: 30_000,
  /** Maximum number of cached connections to agents. */
  maxConnections: 1_000,
};

/** Calls of CPIs through the dispatchers. */
const cpi = {
  /** Maximum time for retries of a call after transient failures. Longer than a restart of a dispatcher. */
  retryTimeoutMs: MINUTE_MS,
  /**
   * Maximum time for a dispatcher to end a cancelled or lost call. Longer than the 2 s that the dispatcher gives the
   * CPI to clean up.
   */
  endTimeoutMs: 10_000,
};

/** Uploads of stemcells. */
const stemcells = {
  /** Maximum size of the tgz. Public BOSH stemcells have less than 2 GiB. */
  maxUploadBytes: 8 * GIB_BYTES,
  /** Maximum total unpacked size, so that a small file cannot fill the disk. */
  maxUnpackedBytes: 32 * GIB_BYTES,
  /** Maximum number of entries of the tgz. BOSH stemcells have fewer than ten. */
  maxEntries: 100,
  /** Maximum number of concurrent uploads. Each may take `maxUnpackedBytes` of the disk. */
  maxConcurrentUploads: 4,
  /** Maximum wait for the next bytes of an upload. */
  idleTimeoutMs: MINUTE_MS,
  downloadTimeoutMs: HOUR_MS,
  /** Maximum time for a CPI to create a stemcell. Equals the dispatcher's time for create_stemcell. */
  createTimeoutMs: HOUR_MS,
};

/** The bosh-registry HTTP API. */
const boshRegistry = {
  /** Maximum size of the settings of one VM. */
  maxSettingsBytes: MIB_BYTES,
  /** Maximum number of VMs with stored settings. Bounds storage when a CPI never deletes settings. */
  maxInstances: 10_000,
  /** Maximum time for a request to arrive and be answered. */
  requestTimeoutMs: 30_000,
  /** Maximum number of concurrent connections. Further connections are closed. */
  maxConnections: 1_000,
};

/** VM agents. */
const agents = {
  /** Maximum time for an agent to answer a request. Equals the limit of BOSH's director. */
  requestTimeoutMs: 45_000,
  /** Poll interval for the result of an agent's task. */
  taskPollIntervalMs: 20,
  /** Interval of the check for agent certificates that are due. */
  certificateCheckIntervalMs: MINUTE_MS,
  /**
   * Maximum wait for the answer of an agent whose VM a deploy checks. The deploy recreates the VM after this time. The
   * CPI has the same time to report whether the VM exists.
   */
  lostAfterMs: 45_000,
  /** An agent without a heartbeat for this long is listed as unresponsive. BOSH agents send heartbeats every 30 s. */
  unresponsiveAfterMs: 90_000,
  /** Interval at which reported health is recorded for the next leader. */
  healthRecordIntervalMs: 5 * MINUTE_MS,
  /** Maximum number of VMs that a task checks or notifies concurrently. */
  maxConcurrentChecks: 16,
  /** Timeout of a call that notifies an agent of an attached disk. */
  attachTimeoutMs: MINUTE_MS,
  /** Maximum time for an agent to release a disk: to unmount a persistent one, or to remove the link of a dynamic one. */
  detachTimeoutMs: 10_000,
  /**
   * Time for an agent to remove the link of a dynamic disk, and for the registries to report that a host is lost, before
   * the CPI detaches the disk. Both take milliseconds. After this time the CPI detaches the disk while the agent is
   * still being asked.
   */
  detachGraceMs: 1_000,
  /** Time in which the agent of a host in operation removes a link. Later the registries are asked about its host. */
  detachPromptMs: 100,
};

/** Logs fetched from agents. */
const agentLogs = {
  /** Maximum time for an agent to pack and send its logs. */
  timeoutMs: 15 * MINUTE_MS,
  /** Maximum size of the packed logs of one agent. */
  maxBytesPerAgent: GIB_BYTES,
  /** Maximum total size of stored and incoming logs. The oldest logs are deleted beyond it. */
  maxKeptBytes: 8 * GIB_BYTES,
  /** Retention of logs. Short, because clients download logs as soon as the task has fetched them. */
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
  /** A task that waits this long for a worker or a CPI's answer is shown as stuck. */
  stuckAfterMs: MINUTE_MS,
};

/**
 * Times and sizes that the director enforces and operators cannot set, because no fleet needs other values. Tests pass
 * shorter and smaller limits to `startDirector`. Limits that tests do not change are defined beside the code that
 * enforces them.
 */
export const DIRECTOR_LIMITS = {
  http,
  queues,
  /** Maximum time for a task to acquire the lock of an instance or a disk before the task fails. */
  lockAcquireTimeoutMs: MINUTE_MS,
  tasks,
  /**
   * Maximum number of retained events. The oldest events are deleted in steps of a tenth of the maximum, so the number
   * may exceed the maximum by a tenth.
   */
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
   * Maximum number of recorded possible orphans: VMs and disks that may exist without any other record. The oldest
   * records are deleted beyond it.
   */
  maxPossibleOrphans: 10_000,
  /** Maximum number of deleted dynamic disks whose names are remembered. The oldest are forgotten. */
  maxDeletedDisks: 10_000,
};

export type DirectorLimits = typeof DIRECTOR_LIMITS;

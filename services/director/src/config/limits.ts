import { MIB_BYTES } from "@diskmesh/domain";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const GIB_BYTES = 1024 * MIB_BYTES;

/** Queues of tasks: what takes an hour in one queue delays nothing in another. */
const queues = {
  /**
   * Tasks that run at once and have to do with the same CPIs. Tasks whose CPIs answer wait for none that hangs. A task of
   * a dynamic disk mostly waits for a CPI and an agent; a deploy plans with all of its instances.
   */
  workers: { urgent: 4, normal: 4, dynamic_disks: 16, vendor_methods: 8 },
  /**
   * Tasks that have not ended, which are kept in memory: those of the normal queue hold manifests of up to 1 MiB. The last
   * sixth is kept for tasks that ask CPIs which hardly any other task asks. Half of vendor_methods may be of one login.
   */
  queueLengths: { urgent: 1_000, normal: 200, dynamic_disks: 10_000, vendor_methods: 10_000 },
  /**
   * Time for a task, from the moment at which a worker took it: longer than its longest act (see time-limits.ts) and,
   * where drivers are called, than a method of an agent may: `asyncTimeoutMs` of DRIVER_LIMITS.
   */
  timeoutsMs: { urgent: HOUR_MS, normal: 24 * HOUR_MS, dynamic_disks: HOUR_MS, vendor_methods: 24 * HOUR_MS },
};

/** The HTTPS API. */
const http = {
  /** Time for the header lines of a request: a client that sends them slower holds one of the connections. */
  headersTimeoutMs: 10_000,
  /** Time for a request to arrive and its answer to begin. Long routes and uploads have limits of their own. */
  requestTimeoutMs: 30_000,
  /** A request that arrives while no director leads waits this long: longer than a takeover takes. */
  leaderWaitMs: 15_000,
  /** A stop waits this long for requests under way: less than half of the time in which a process stops. */
  drainTimeoutMs: 2_000,
};

/** Tasks and their outputs. */
const tasks = {
  /** Ended tasks that are kept with their outputs. */
  maxKeptTasks: 2_000,
  /** Lines of the progress of one task. */
  maxEventsPerTask: 10_000,
  /** Lines of the CPI and debug outputs of one task. */
  maxOutputLinesPerTask: 100_000,
  /** Size of each output of a task: events, what CPIs write, what was asked of them. */
  maxOutputBytesPerTask: 16 * MIB_BYTES,
  /** Size of the outputs of all ended tasks. The oldest tasks are forgotten beyond it. */
  maxKeptOutputBytes: 4 * GIB_BYTES,
  /** Lines of all tasks that wait in memory for the storage. Lines are lost beyond it. */
  maxWaitingOutputBytes: 64 * MIB_BYTES,
  /** A call with `wait` answers this long before its deadline, so that the answer arrives in time. */
  answerMarginMs: 500,
};

/** Agents of hosts, and the registries that know them. */
const nodes = {
  /** Time for an answer of a registry or an agent. */
  requestTimeoutMs: 10_000,
  /** Time for a method of a node that somebody waits for: above the 20 s that the agent gives it (`syncTimeoutMs` of DRIVER_LIMITS). */
  callTimeoutMs: 30_000,
  /** An agent's address and methods are not asked for again within this time, unless the agent reports a change. */
  knownForMs: 30_000,
  /** Agents to which a connection is kept. */
  maxConnections: 1_000,
};

/** Calls of CPIs through the dispatchers. */
const cpi = {
  /** A call that failed in passing is repeated this long: longer than a restart of a dispatcher takes. */
  retryTimeoutMs: MINUTE_MS,
  /** Time for a dispatcher to end a call that was cancelled or lost: above the 2 s it gives the CPI to clean up. */
  endTimeoutMs: 10_000,
};

/** Uploads of stemcells. */
const stemcells = {
  /** Size of the tgz. Public stemcells of BOSH have less than 2 GiB. */
  maxUploadBytes: 8 * GIB_BYTES,
  /** Size of everything it unpacks to, so that a small file cannot fill the disk. */
  maxUnpackedBytes: 32 * GIB_BYTES,
  /** Entries of the tgz: stemcells of BOSH have fewer than ten. */
  maxEntries: 100,
  /** Uploads at once: each may take `maxUnpackedBytes` of the disk. */
  maxConcurrentUploads: 4,
  /** Time for the next bytes of an upload. */
  idleTimeoutMs: MINUTE_MS,
  /** Time for a download from elsewhere. */
  downloadTimeoutMs: HOUR_MS,
  /** Time for a CPI to make a stemcell: as long as the dispatcher gives create_stemcell. */
  createTimeoutMs: HOUR_MS,
};

/** The bosh-registry HTTP API. */
const boshRegistry = {
  /** Size of the settings of one VM. */
  maxSettingsBytes: MIB_BYTES,
  /** VMs whose settings are kept: a CPI that never deletes them must not fill the storage. */
  maxInstances: 10_000,
  /** Time for a request to arrive and be answered. */
  requestTimeoutMs: 30_000,
  /** Connections at once. Further ones are cut. */
  maxConnections: 1_000,
};

/** Agents in VMs. */
const agents = {
  /** Time for an agent to answer a request: BOSH's director waits as long. */
  requestTimeoutMs: 45_000,
  /** An agent is asked this often whether it is done. */
  taskPollIntervalMs: 20,
  /** The director looks this often for certificates of agents that are due. */
  certificateCheckIntervalMs: MINUTE_MS,
  /**
   * An agent that a deploy asks in vain for this long is lost, and its VM is recreated. The CPI has as long to say that
   * it does not have the VM.
   */
  lostAfterMs: 45_000,
  /** An agent that was not heard for this long is called unresponsive: BOSH's agents beat every 30 s. */
  unresponsiveAfterMs: 90_000,
  /** The health that agents report is recorded this often, for the next leader. */
  healthRecordIntervalMs: 5 * MINUTE_MS,
  /** VMs that a deploy looks after at once. */
  maxConcurrentChecks: 16,
  /** An agent that does not answer is told of an attached disk for this long. */
  attachTimeoutMs: MINUTE_MS,
  /** An agent that does not answer delays a detach by no more than this. */
  detachTimeoutMs: 10_000,
};

/** Logs of agents. */
const agentLogs = {
  /** Time for an agent to pack and send its logs. */
  timeoutMs: 15 * MINUTE_MS,
  /** Size of the packed logs of one agent. */
  maxBytesPerAgent: GIB_BYTES,
  /** Size of all logs that are kept or on their way. The oldest are deleted beyond it. */
  maxKeptBytes: 8 * GIB_BYTES,
  /** Logs are kept this long: whoever asked for them fetches them at once. */
  keptMs: HOUR_MS,
};

/** Recreation of VMs that are gone. */
const resurrection = {
  /** An agent is silent for this long before the CPI is asked whether its VM is gone: four heartbeats of BOSH's agents. */
  silentAfterMs: 2 * MINUTE_MS,
  /** A VM whose agent is silent for this long is recreated even if its CPI has it. */
  deadAfterMs: 10 * MINUTE_MS,
  /** Silent agents are looked for this often. */
  checkIntervalMs: 5_000,
};

/** The page for browsers. */
const page = {
  /** Browsers that are told of changes at once. Half of them may be of one login. */
  maxViewers: 50,
  /** A browser is told of changes at most this often. */
  sendIntervalMs: 250,
  /** A browser hears at least this often that it is still connected. */
  beatIntervalMs: 5_000,
  /** A task that waits this long for a worker, or for a CPI's answer, is shown as stuck. */
  stuckAfterMs: MINUTE_MS,
  /** Rows are kept up to date this long once nobody looks: a reload finds them. */
  lingerMs: 10_000,
};

/**
 * Times and sizes that the director enforces and no operator sets, because no fleet needs others. Tests give shorter and
 * smaller ones to `startDirector`. Those that tests leave alone stand beside the code that enforces them.
 */
export const DIRECTOR_LIMITS = {
  http,
  queues,
  /** A task waits this long for the lock of an instance or a disk before it fails. */
  lockAcquireTimeoutMs: MINUTE_MS,
  tasks,
  /** Events that are kept, and up to a tenth more. The oldest are deleted beyond it. */
  maxEvents: 100_000,
  nodes,
  cpi,
  stemcells,
  boshRegistry,
  agents,
  agentLogs,
  resurrection,
  page,
  /** VMs and disks that CPIs may have made unknown to anybody. The oldest are forgotten beyond it. */
  maxPossibleOrphans: 10_000,
};

export type DirectorLimits = typeof DIRECTOR_LIMITS;

import { randomUUID } from "node:crypto";
import type { Logger } from "@diskmesh/domain";
import { DriverHost } from "@diskmesh/driver/host";
import type { AgentClient } from "@diskmesh/mbus";
import { KeptLists } from "@diskmesh/rpc";
import { Changes, type Clock, type Lifecycle, systemClock, type Waiting } from "@diskmesh/service";
import { type EventLog, openEventLog } from "@diskmesh/tablet";
import { observeTablet, openServiceTablet } from "@diskmesh/tablet-admin";
import type { AgentCertificates } from "./agents/agent-certificates.js";
import { BoshRegistryServer } from "./bosh-registry/bosh-registry-server.js";
import type { DirectorConfig } from "./config.js";
import type { CallRecords } from "./cpi/call-records.js";
import type { CpiConfigTeller } from "./cpi/cpi-config-teller.js";
import type { Dispatchers } from "./cpi/dispatchers.js";
import { makeCpiCalls } from "./cpi/make-cpi-calls.js";
import { LogFiles } from "./instance-logs/log-files.js";
import { cpisOfJob, planners } from "./jobs/planners.js";
import { prepareJob } from "./jobs/prepare.js";
import { observeDirector, observeLocks } from "./metrics/observe-director.js";
import type { DirectorTables } from "./model/schema.js";
import type { AgentSettings } from "./model/vm-spec.js";
import type { Feed } from "./page/feed.js";
import { makeFeed } from "./page/make-feed.js";
import { CallMemory } from "./passthru/call-memory.js";
import type { Nodes } from "./passthru/nodes.js";
import { Passthru } from "./passthru/passthru.js";
import { lockTimes, queueLimits } from "./queue-limits.js";
import type { Registries } from "./registries.js";
import { StemcellFiles } from "./stemcells/stemcell-files.js";
import type { JobContext } from "./steps/job-context.js";
import { type DirectorTablet, storedSchema } from "./stored-schema.js";
import { AgentHealths } from "./workers/agent-healths.js";
import { AgentNotices } from "./workers/agent-notices.js";
import { AgentRenewals } from "./workers/agent-renewals.js";
import { EndedTasks } from "./workers/ended-tasks.js";
import { Events } from "./workers/events.js";
import { LockKeeper } from "./workers/lock-keeper.js";
import { OwedRemovals } from "./workers/owed-removals.js";
import { QueueRoom } from "./workers/queue-room.js";
import { Refusals } from "./workers/refusals.js";
import { Resurrector } from "./workers/resurrector.js";
import { TaskArchive } from "./workers/task-archive.js";
import { TaskLog } from "./workers/task-log.js";
import { TaskRunner } from "./workers/task-runner.js";
import { TaskTimes } from "./workers/task-times.js";
import { Tasks } from "./workers/tasks.js";
import { VmSlots } from "./workers/vm-slots.js";
import type { CloudConfigs } from "./yaml/cloud-configs.js";
import type { CpiConfigs } from "./yaml/cpi-configs.js";
import type { Manifests } from "./yaml/manifests.js";
import type { YamlReader } from "./yaml/reader.js";
import { readersOfTexts } from "./yaml/readers-of-texts.js";

/** What handlers work with. */
export interface Context {
  readonly config: DirectorConfig;
  readonly tablet: DirectorTablet;
  /** Undefined when agents get no certificates of their own. */
  readonly agentCertificates: AgentCertificates | undefined;
  readonly cloudConfigs: CloudConfigs;
  readonly cpiConfigs: CpiConfigs;
  readonly manifests: Manifests;
  readonly reader: YamlReader;
  readonly stemcellFiles: StemcellFiles;
  readonly logFiles: LogFiles;
  readonly tasks: Tasks;
  readonly endedTasks: EndedTasks;
  readonly taskLog: TaskLog;
  readonly events: Events;
  readonly refusals: Refusals;
  readonly changes: Changes<number>;
  readonly locks: LockKeeper;
  readonly agentHealths: AgentHealths;
  readonly lists: KeptLists<DirectorTables>;
  readonly passthru: Passthru;
  readonly registries: Registries;
  readonly callRecords: Pick<CallRecords, "awaited" | "isLeft">;
  readonly feed: Feed;
  /** False while no agent can be heard. */
  readonly agentsAreHeard: () => boolean;
  readonly clock: Clock;
}

export interface Director {
  readonly context: Context;
  readonly runner: TaskRunner;
  readonly times: TaskTimes;
  readonly teller: CpiConfigTeller;
  readonly callRecords: CallRecords;
  readonly owedRemovals: OwedRemovals;
  /** Undefined when agents get no certificates of their own. */
  readonly renewals: AgentRenewals | undefined;
  readonly agentNotices: AgentNotices;
  readonly resurrector: Resurrector;
  readonly boshRegistry: BoshRegistryServer;
}

export interface Connections {
  readonly dispatchers: Dispatchers;
  readonly agents: AgentClient;
  readonly agentCertificates: AgentCertificates | undefined;
  readonly agentSettings: AgentSettings;
  /** Of this director's HTTPS face, as agents reach it. */
  readonly logsUrl: string | undefined;
  readonly nodes: Nodes;
  readonly registries: Registries;
}

const CHECK_INTERVAL_MS = 250;

/** Waits until this process may lead, and claims the tablet. */
export async function openState(
  config: DirectorConfig,
  address: string,
  scope: Lifecycle,
  waiting: Waiting,
): Promise<{ readonly tablet: DirectorTablet; readonly eventLog: EventLog }> {
  const { storage, name } = config.tablet;
  const tablet = scope.use("tablet", await openServiceTablet(config.tablet, storedSchema, address, waiting));
  scope.use("metrics of the tablet", observeTablet(tablet));
  scope.use("metrics of tasks", await observeDirector(tablet, systemClock));
  return { tablet, eventLog: scope.use("event log", openEventLog(storage, name)) };
}

/** Puts the parts together; nothing runs yet. */
export function createDirector(
  config: DirectorConfig,
  state: { readonly tablet: DirectorTablet; readonly eventLog: EventLog },
  connections: Connections,
  lifecycle: Lifecycle,
  log: Logger,
): Director {
  const { tablet, eventLog } = state;
  const clock = systemClock;
  const random = Math.random;
  const changes = new Changes<number>();
  const texts = readersOfTexts(config, lifecycle);
  const { reader, cloudConfigs, cpiConfigs, manifests, readStemcellManifest } = texts;
  const { answerMarginMs } = config.tasks;
  const { stopping } = lifecycle;
  const taskLog = new TaskLog({ ...config.tasks, eventLog, changes, stopping, clock, random, log });
  const readManifest = readStemcellManifest;
  const stemcellFiles = lifecycle.use(
    "stemcell files",
    new StemcellFiles({ ...config.stemcells, readManifest, tablet, log }),
  );
  const logOptions = { ...config.agents.logs, url: connections.logsUrl, clock, log };
  const logFiles = lifecycle.use("log files", new LogFiles(logOptions));
  const boshRegistry = lifecycle.use(
    "bosh-registry",
    new BoshRegistryServer({ config: config.boshRegistry, tablet, log }),
  );
  const { dispatchers } = connections;
  const events = lifecycle.use("events", new Events({ ...config.events, eventLog, tablet, clock, log }));
  const { cpi, teller, callRecords } = makeCpiCalls({
    config,
    tablet,
    dispatchers,
    cloudConfigs,
    cpiConfigs,
    events,
    lifecycle,
    clock,
    random,
    log,
  });
  const { drivers } = config;
  const host = lifecycle.use("drivers", new DriverHost({ config: drivers, random, log }));
  const { nodes } = connections;
  const callMemory = new CallMemory();
  const jobs: JobContext = {
    config,
    tablet,
    cpi,
    events,
    agents: connections.agents,
    agentCertificates: connections.agentCertificates,
    cloudConfigs,
    cpiConfigs,
    manifests,
    boshRegistry,
    stemcellFiles,
    logFiles,
    agentSettings: connections.agentSettings,
    vmSlots: new VmSlots(config.deployments.maxConcurrentVmsPerCpi),
    endedAdds: new Set(),
    lockOwner: (lock) => locks.owner(lock),
    vendors: {
      host,
      nodes,
      memory: callMemory,
      startId: randomUUID(),
      asyncTimeoutMs: drivers.limits.asyncTimeoutMs,
      callTimeoutMs: config.nodes.callTimeoutMs,
    },
    silentMsOf: (agentId) => agentHealths.shown(agentId).silentMs,
    clock,
    newId: randomUUID,
    random,
  };
  const { workers, queueLengths, timeoutsMs } = queueLimits(config);
  const room = new QueueRoom({ queueLengths, cpisOf: (job, tables) => cpisOfJob(jobs, planners, job, tables) });
  lifecycle.use("queue room", { close: tablet.watch((all) => room.onChanges(all)) });
  const endedTasks = new EndedTasks(eventLog);
  const tasks = new Tasks({ tablet, endedTasks, changes, clock, room, answerMarginMs });
  const locks = new LockKeeper({
    times: lockTimes(config),
    clock,
    onGranted: (taskIds) => runner.resume(taskIds),
  });
  lifecycle.use(
    "metrics of locks",
    observeLocks(() => locks.list()),
  );
  const times = new TaskTimes({ tablet, locks, clock, log, timeoutsMs, checkIntervalMs: CHECK_INTERVAL_MS });
  const runner = new TaskRunner({
    context: jobs,
    prepare: (job, signal) => prepareJob(jobs, job, signal),
    planners,
    locks,
    taskLog,
    changes,
    times,
    onForgotten: (taskId) => callMemory.forget(taskId),
    workers,
    queueLengths,
    clock,
    random,
    log,
  });
  const archive = new TaskArchive({ ...config.tasks, tablet, endedTasks, taskLog, clock, random, log });
  lifecycle.use("task archive", archive);
  lifecycle.use("task times", times);
  lifecycle.use("task runner", runner);
  const { agents } = connections;
  const owedRemovals = lifecycle.use("owed removals", new OwedRemovals({ tablet, agents, tasks, clock, random, log }));
  const { agentCertificates: certificates } = connections;
  const checkIntervalMs = config.agents.certificates?.checkIntervalMs ?? 0;
  const renewals =
    certificates && new AgentRenewals({ tablet, certificates, agents, tasks, checkIntervalMs, clock, random, log });
  if (renewals) lifecycle.use("renewals of agents' certificates", renewals);
  const { unresponsiveAfterMs, healthRecordIntervalMs } = config.agents;
  const health = { tablet, agents, tasks, unresponsiveAfterMs, healthRecordIntervalMs, clock, log };
  const agentHealths = lifecycle.use("agent healths", new AgentHealths(health));
  const agentNotices = lifecycle.use("agent notices", new AgentNotices({ tablet, agents, events, clock, log }));
  const resurrecting = { config: config.resurrection, tablet, agents, agentHealths, tasks, clock, random, log };
  const resurrector = lifecycle.use("resurrector", new Resurrector(resurrecting));
  const lists = lifecycle.use("lists", new KeptLists<DirectorTables>(tablet, config.paging));
  const passthru = new Passthru({
    host,
    nodes,
    tablet,
    tasks,
    locks,
    events,
    memory: callMemory,
    callTimeoutMs: config.nodes.callTimeoutMs,
    syncTimeoutMs: drivers.limits.syncTimeoutMs,
  });
  const { registries } = connections;
  const feed = makeFeed({
    config,
    tablet,
    endedTasks,
    locks,
    calls: callRecords,
    agentHealths,
    registries,
    dispatchers: connections.dispatchers.all,
    cpiConfig: teller,
    clock,
  });
  lifecycle.use("page", feed);
  const context = {
    config,
    tablet,
    agentCertificates: certificates,
    reader,
    cloudConfigs,
    cpiConfigs,
    manifests,
    stemcellFiles,
    logFiles,
    tasks,
    endedTasks,
    taskLog,
    events,
    refusals: new Refusals(events, clock),
    changes,
    locks,
    agentHealths,
    lists,
    passthru,
    registries,
    callRecords,
    feed,
    agentsAreHeard: () => agents.isConnected,
    clock,
  };
  return {
    context,
    runner,
    times,
    teller,
    callRecords,
    owedRemovals,
    renewals,
    agentNotices,
    resurrector,
    boshRegistry,
  };
}

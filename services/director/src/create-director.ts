import { randomUUID } from "node:crypto";
import type { Logger } from "@diskmesh/domain";
import { DRIVER_USER, DriverHost } from "@diskmesh/driver/host";
import type { AgentClient } from "@diskmesh/mbus";
import {
  Changes,
  type Clock,
  CsiDrivers,
  type Lifecycle,
  slotsOfEach,
  systemClock,
  type Waiting,
} from "@diskmesh/service";
import { type EventLog, openEventLog } from "@diskmesh/tablet";
import { observeTablet, openServiceTablet, type ProcessReport } from "@diskmesh/tablet-admin";
import { AgentCalls, type AgentCallsOptions } from "./agents/agent-calls.js";
import type { AgentCertificates } from "./agents/agent-certificates.js";
import { AgentHealths } from "./agents/agent-healths.js";
import { AgentNotices } from "./agents/agent-notices.js";
import { Events } from "./audit/events.js";
import { Refusals } from "./audit/refusals.js";
import type { DirectorConfig } from "./config/config.js";
import { DIRECTOR_LIMITS, type DirectorLimits } from "./config/limits.js";
import { type ReadersOfTexts, readersOfTexts } from "./configs/readers-of-texts.js";
import type { CallRecords } from "./cpi/call-records.js";
import type { CpiConfigSender } from "./cpi/cpi-config-sender.js";
import type { Dispatchers } from "./cpi/dispatchers.js";
import { type CpiParts, makeCpiCalls } from "./cpi/make-cpi-calls.js";
import { AgentsBack } from "./disks/dynamic/agents-back.js";
import { OwedRemovals } from "./disks/owed-removal-worker.js";
import type { Registries } from "./explain/registries.js";
import { Resurrector } from "./health/resurrector.js";
import type { Context } from "./http/context.js";
import { LogFiles } from "./instance-logs/log-files.js";
import type { JobContext } from "./job-context.js";
import { LockKeeper } from "./locks/lock-keeper.js";
import { lockTimes } from "./locks/lock-times.js";
import { makeOverview } from "./make-overview.js";
import { observeDirector, observeLocks } from "./observe-director.js";
import { Activity } from "./page/activity.js";
import { cpisOfJob, planWith } from "./planners.js";
import { prepareJob } from "./prepare.js";
import type { AgentSettings } from "./specs/agent-settings.js";
import { StemcellFiles } from "./stemcells/stemcell-files.js";
import { type DirectorTablet, storedSchema } from "./store/stored-schema.js";
import type { Task } from "./store/task.js";
import { EndedTasks } from "./tasks/ended-tasks.js";
import { TaskArchive } from "./tasks/task-archive.js";
import { TaskLog } from "./tasks/task-log.js";
import { TaskRunner } from "./tasks/task-runner.js";
import { TaskTimes } from "./tasks/task-times.js";
import { Tasks, type TasksOptions } from "./tasks/tasks.js";
import { CallMemory } from "./vendor-methods/call-memory.js";
import type { Nodes } from "./vendor-methods/nodes.js";
import { Passthru } from "./vendor-methods/passthru.js";
import { AgentRenewals } from "./vms/agent-renewals.js";

export interface Director {
  readonly context: Context;
  readonly runner: TaskRunner;
  readonly times: TaskTimes;
  readonly sender: CpiConfigSender;
  readonly callRecords: CallRecords;
  readonly owedRemovals: OwedRemovals;
  /** Undefined when the director signs no agent certificates. */
  readonly renewals: AgentRenewals | undefined;
  readonly agentNotices: AgentNotices;
  readonly resurrector: Resurrector;
  readonly drivers: DriverHost;
}

export interface Connections {
  readonly dispatchers: Dispatchers;
  readonly agents: AgentClient;
  readonly agentCertificates: AgentCertificates | undefined;
  readonly agentSettings: AgentSettings;
  /** The address of this director's HTTPS API for agents. */
  readonly logsUrl: string | undefined;
  readonly nodes: Nodes;
  readonly registries: Registries;
  readonly report: () => ProcessReport;
}

/** The dependencies shared by all parts. */
interface Ground {
  readonly config: DirectorConfig;
  readonly limits: DirectorLimits;
  readonly tablet: DirectorTablet;
  readonly eventLog: EventLog;
  readonly connections: Connections;
  readonly lifecycle: Lifecycle;
  readonly changes: Changes<number>;
  readonly clock: Clock;
  /** Returns a number in [0, 1). */
  readonly log: Logger;
}

interface Configs {
  readonly configs: ReadersOfTexts;
}
type Silences = Pick<AgentCallsOptions, "silentMsOf">;
type Files = ReturnType<typeof makeFiles>;
type Records = ReturnType<typeof makeRecords>;
type Drivers = ReturnType<typeof makeDrivers>;
type TaskParts = ReturnType<typeof makeTasks>;
type AgentParts = ReturnType<typeof makeAgentCare>;

/** Longer than an agent that answers takes, and short enough for a person who waits. */
const YIELD_AFTER_MS = 10_000;
const CHECK_INTERVAL_MS = 250;

/** Waits until this process may lead, then claims the tablet. */
export async function openState(
  config: DirectorConfig,
  address: string,
  scope: Lifecycle,
  waiting: Waiting,
  log: Logger,
): Promise<{ readonly tablet: DirectorTablet; readonly eventLog: EventLog }> {
  const { storage, name } = config.tablet;
  const tablet = scope.use("tablet", await openServiceTablet(config.tablet, storedSchema, address, waiting));
  scope.use("metrics of the tablet", observeTablet(tablet));
  scope.use("metrics of tasks", await observeDirector(tablet, systemClock));
  return { tablet, eventLog: scope.use("event log", openEventLog(storage, name, log)) };
}

/** Creates the director's parts without starting them. The lifecycle closes them in reverse order. */
export function createDirector(
  config: DirectorConfig,
  state: { readonly tablet: DirectorTablet; readonly eventLog: EventLog },
  connections: Connections,
  lifecycle: Lifecycle,
  log: Logger,
  limits = DIRECTOR_LIMITS,
): Director {
  const common = { clock: systemClock, log };
  const changes = new Changes<number>();
  const ground: Ground = { config, limits, ...state, connections, lifecycle, changes, ...common };
  const configs = readersOfTexts(config, lifecycle);
  const files = makeFiles(ground, configs);
  const records = makeRecords(ground);
  const { dispatchers } = connections;
  const calls = makeCpiCalls({ ...ground, configs, events: records.events, dispatchers });
  const drivers = makeDrivers(ground);
  const jobs = jobContext(ground, {
    ...{ configs, ...files, ...records, ...calls, ...drivers },
    lockOwner: (lock) => work.locks.owner(lock),
    silentMsOf: (agentId) => care.agentHealths.shown(agentId).silentMs,
  });
  const work = makeTasks(ground, { ...records, jobs, callMemory: drivers.callMemory });
  const care = makeAgentCare(ground, { configs, ...records, ...work });
  const context = makeContext(ground, { configs, ...files, ...records, ...calls, ...drivers, ...work, ...care });
  const { runner, times } = work;
  const { owedRemovals, renewals, agentNotices, resurrector } = care;
  const workers = { runner, times, owedRemovals, renewals, agentNotices, resurrector };
  return {
    context,
    ...workers,
    drivers: drivers.host,
    sender: calls.sender,
    callRecords: calls.callRecords,
  };
}

/** Creates the file stores beside the tablet. */
function makeFiles({ config, limits, tablet, connections, lifecycle, clock, log }: Ground, texts: ReadersOfTexts) {
  const readManifest = texts.readStemcellManifest;
  const stemcells = new StemcellFiles({ ...config.stemcells, ...limits.stemcells, readManifest, tablet, log });
  const logs = new LogFiles({ ...config.agents.logs, ...limits.agentLogs, url: connections.logsUrl, clock, log });
  return {
    stemcellFiles: lifecycle.use("stemcell files", stemcells),
    logFiles: lifecycle.use("log files", logs),
  };
}

/** Creates the records of past work in the event log. */
function makeRecords({ limits, tablet, eventLog, lifecycle, changes, clock, log }: Ground) {
  const { stopping } = lifecycle;
  return {
    taskLog: new TaskLog({ ...limits.tasks, eventLog, changes, stopping, clock, log }),
    events: lifecycle.use("events", new Events({ maxCount: limits.maxEvents, eventLog, tablet, clock, log })),
    endedTasks: new EndedTasks(eventLog),
  };
}

/** Creates the director's own drivers and the idempotency cache of their calls. */
function makeDrivers({ config, lifecycle, log }: Ground) {
  const host = lifecycle.use(
    "drivers",
    new DriverHost({ drivers: config.drivers, userOfRoot: DRIVER_USER, random: Math.random, log }),
  );
  return { host, callMemory: new CallMemory() };
}

function jobContext(
  { config, limits, tablet, connections, clock }: Ground,
  parts: Configs & Files & Records & CpiParts & Drivers & Pick<JobContext, "lockOwner"> & Silences,
): JobContext {
  const { cpi, events, configs, stemcellFiles, logFiles, lockOwner, silentMsOf } = parts;
  const { agents: client, agentCertificates, agentSettings, nodes, registries } = connections;
  const { requestTimeoutMs } = limits.agents;
  return {
    ...{ config, limits, tablet, cpi, events, configs, stemcellFiles, logFiles, lockOwner, registries },
    agents: new AgentCalls({ client, tablet, requestTimeoutMs, silentMsOf, clock }),
    making: { agentSettings, agentCertificates },
    vmSlots: slotsOfEach(config.deployments.maxConcurrentVmsPerCpi),
    vendors: {
      host: parts.host,
      nodes,
      memory: parts.callMemory,
      startId: randomUUID(),
      callTimeoutMs: limits.nodes.callTimeoutMs,
    },
    clock,
  };
}

/** Creates the parts that accept and run tasks. */
function makeTasks(
  { config, limits, tablet, lifecycle, changes, clock, log }: Ground,
  {
    jobs,
    taskLog,
    events,
    endedTasks,
    callMemory,
  }: Records & Pick<Drivers, "callMemory"> & { readonly jobs: JobContext },
) {
  const { workers, queueLengths, timeoutsMs } = limits.queues;
  const plan = planWith(jobs);
  const cpisOf: TasksOptions["cpisOf"] = (job, tables) => cpisOfJob(plan, job, tables);
  const onRecorded = (task: Task): void => runner.enqueue(task);
  const { answerMarginMs } = limits.tasks;
  const tasks = new Tasks({ tablet, endedTasks, changes, clock, queueLengths, cpisOf, onRecorded, answerMarginMs });
  const locks = new LockKeeper({
    times: lockTimes(config, limits),
    clock,
    onGranted: (taskIds) => runner.resume(taskIds),
  });
  lifecycle.use(
    "metrics of locks",
    observeLocks(() => locks.list()),
  );
  const intervals = { checkIntervalMs: CHECK_INTERVAL_MS, yieldAfterMs: YIELD_AFTER_MS };
  const times = new TaskTimes({ tablet, locks, clock, log, timeoutsMs, ...intervals });
  const runner = new TaskRunner({
    ...{ tablet, plan, events },
    prepare: (job, signal) => prepareJob(jobs, job, signal),
    ...{ locks, taskLog, changes, times },
    onForgotten: (taskId) => callMemory.forget(taskId),
    ...{ workers, queueLengths, clock, log },
  });
  lifecycle.use("task archive", new TaskArchive({ ...limits.tasks, tablet, endedTasks, taskLog, clock, log }));
  lifecycle.use("task timeouts", times);
  lifecycle.use("task runner", runner);
  return { tasks, locks, times, runner };
}

/** Creates the parts that maintain agents and their VMs in the background. */
function makeAgentCare(
  { limits, tablet, connections, lifecycle, clock, log }: Ground,
  { tasks, events, configs }: Pick<Records & TaskParts, "tasks" | "events"> & Configs,
) {
  const { agents, agentCertificates: certificates } = connections;
  const common = { tablet, agents, tasks, clock, log };
  const owedRemovals = lifecycle.use("pending detach notifications", new OwedRemovals(common));
  const { certificateCheckIntervalMs: checkIntervalMs, unresponsiveAfterMs, healthRecordIntervalMs } = limits.agents;
  const renewals = certificates && new AgentRenewals({ ...common, certificates, checkIntervalMs });
  if (renewals) lifecycle.use("agent certificate renewals", renewals);
  const backOf = (isResponsive: (agentId: string) => boolean) => new AgentsBack({ ...common, isResponsive });
  const health = { tablet, agents, backOf, unresponsiveAfterMs, healthRecordIntervalMs, clock, log };
  const agentHealths = lifecycle.use("agent health recording", new AgentHealths(health));
  const agentNotices = lifecycle.use("agent messages", new AgentNotices({ tablet, agents, events, clock, log }));
  const resurrecting = {
    ...common,
    limits: limits.resurrection,
    resurrectionConfigs: configs.resurrection,
    agentHealths,
  };
  return {
    ...{ owedRemovals, renewals, agentHealths, agentNotices },
    resurrector: lifecycle.use("resurrector", new Resurrector(resurrecting)),
  };
}

function makeContext(
  { config, limits, tablet, connections, lifecycle, changes, clock, log }: Ground,
  parts: Configs & Files & Records & CpiParts & Drivers & TaskParts & AgentParts,
): Context {
  const { configs, cpi, stemcellFiles, logFiles } = parts;
  const { taskLog, events, endedTasks, tasks, locks, callRecords, agentHealths } = parts;
  const { agents, agentCertificates, nodes, registries, report, dispatchers } = connections;
  const passthru = new Passthru({
    ...{ host: parts.host, nodes, tablet, tasks, taskLog, locks, events, memory: parts.callMemory, clock },
    callTimeoutMs: limits.nodes.callTimeoutMs,
  });
  const agentsAreHeard = (): boolean => agents.isConnected;
  const overview = makeOverview(
    {
      ...{ limits, tablet, configs, endedTasks, taskLog, locks, agentHealths, registries, callRecords },
      ...{ agentsAreHeard, report, clock },
    },
    { dispatchers: dispatchers.all, cpiConfig: parts.sender },
  );
  const activity = new Activity({ tablet, registries: registries.named().map(({ clients }) => clients), clock });
  return {
    ...{ config, limits, tablet, agentCertificates, configs, cpi, stemcellFiles, logFiles },
    ...{ tasks, endedTasks, taskLog, events, changes, locks, agentHealths, passthru, registries, callRecords },
    csiDrivers: lifecycle.use("watch of csi-drivers", new CsiDrivers({ clock, log })),
    refusals: new Refusals(events, clock),
    overview: lifecycle.use("page", overview),
    activity: lifecycle.use("page's samples", activity),
    agentsAreHeard,
    report,
    clock,
  };
}

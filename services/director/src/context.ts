import type { KeptLists } from "@diskmesh/rpc";
import type { Changes, Clock } from "@diskmesh/service";
import type { AgentCertificates } from "./agents/agent-certificates.js";
import type { DirectorConfig } from "./config.js";
import type { CallRecords } from "./cpi/call-records.js";
import type { LogFiles } from "./instance-logs/log-files.js";
import type { DirectorLimits } from "./limits.js";
import type { DirectorTables } from "./model/schema.js";
import type { Feed } from "./page/feed.js";
import type { Passthru } from "./passthru/passthru.js";
import type { Registries } from "./registries.js";
import type { StemcellFiles } from "./stemcells/stemcell-files.js";
import type { DirectorTablet } from "./stored-schema.js";
import type { AgentHealths } from "./workers/agent-healths.js";
import type { EndedTasks } from "./workers/ended-tasks.js";
import type { Events } from "./workers/events.js";
import type { LockKeeper } from "./workers/lock-keeper.js";
import type { Refusals } from "./workers/refusals.js";
import type { TaskLog } from "./workers/task-log.js";
import type { Tasks } from "./workers/tasks.js";
import type { ReadersOfTexts } from "./yaml/readers-of-texts.js";

/** Handlers that start, show and end tasks, and those that read tables or note events beside that. */
export interface TaskContext {
  readonly config: DirectorConfig;
  readonly limits: DirectorLimits;
  readonly tablet: DirectorTablet;
  readonly clock: Clock;
  readonly tasks: Tasks;
  readonly endedTasks: EndedTasks;
  readonly taskLog: TaskLog;
  readonly changes: Changes<number>;
  readonly events: Events;
  readonly lists: KeptLists<DirectorTables>;
}

/** Handlers of configs and manifests. */
export interface ConfigContext extends TaskContext {
  readonly configs: ReadersOfTexts;
}

/** Handlers of agents' certificates. */
export interface AgentContext extends TaskContext {
  /** Undefined when agents get no certificates of their own. */
  readonly agentCertificates: AgentCertificates | undefined;
}

/** Handlers of instances. */
export interface InstanceContext extends TaskContext {
  readonly locks: LockKeeper;
  readonly agentHealths: AgentHealths;
}

/** Handlers of problems and resurrection. */
export interface HealthContext extends ConfigContext {
  readonly agentHealths: AgentHealths;
}

/** Handlers of logs of instances. */
export interface LogContext extends TaskContext {
  readonly logFiles: LogFiles;
}

/** Handlers of stemcells. */
export interface StemcellContext extends TaskContext {
  readonly stemcellFiles: StemcellFiles;
}

/** Handlers of vendors' methods. */
export interface VendorContext extends TaskContext {
  readonly locks: LockKeeper;
  readonly passthru: Passthru;
}

/** What an explanation is made from. */
export interface ExplainContext {
  readonly limits: DirectorLimits;
  readonly tablet: DirectorTablet;
  readonly clock: Clock;
  readonly configs: ReadersOfTexts;
  readonly tasks: Tasks;
  readonly taskLog: TaskLog;
  readonly locks: LockKeeper;
  readonly agentHealths: AgentHealths;
  readonly registries: Registries;
  readonly callRecords: Pick<CallRecords, "awaited" | "isLeft">;
  /** False while no agent can be heard. */
  readonly agentsAreHeard: () => boolean;
}

/** All that the APIs work with. */
export interface Context
  extends AgentContext,
    InstanceContext,
    HealthContext,
    LogContext,
    StemcellContext,
    VendorContext,
    ExplainContext {
  readonly refusals: Refusals;
  readonly feed: Feed;
}

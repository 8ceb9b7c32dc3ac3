import type { KeptLists } from "@diskmesh/rpc";
import type { Changes, Clock } from "@diskmesh/service";
import type { AgentCertificates } from "./agents/agent-certificates.js";
import type { DirectorConfig } from "./config.js";
import type { CallRecords } from "./cpi/call-records.js";
import type { LogFiles } from "./instance-logs/log-files.js";
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

/** What handlers work with. */
export interface Context {
  readonly config: DirectorConfig;
  readonly tablet: DirectorTablet;
  /** Undefined when agents get no certificates of their own. */
  readonly agentCertificates: AgentCertificates | undefined;
  readonly configs: ReadersOfTexts;
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

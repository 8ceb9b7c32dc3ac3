import type { Clock } from "@diskmesh/service";
import type { ProcessReport } from "@diskmesh/tablet-admin";
import type { AgentHealths } from "../agents/agent-healths.js";
import type { DirectorLimits } from "../config/limits.js";
import type { ReadersOfTexts } from "../configs/readers-of-texts.js";
import type { CallRecords } from "../cpi/call-records.js";
import type { LockKeeper } from "../locks/lock-keeper.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { TaskLog } from "../tasks/task-log.js";
import type { Tasks } from "../tasks/tasks.js";
import type { Registries } from "./registries.js";

/** The sources of an explanation. */
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
  readonly callRecords: Pick<CallRecords, "awaited" | "isLeft" | "retried">;
  /** The needs of this process. */
  readonly report: () => ProcessReport;
  /** Returns false while no agent's messages can arrive. */
  readonly agentsAreHeard: () => boolean;
}

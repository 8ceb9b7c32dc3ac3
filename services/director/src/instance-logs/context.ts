import type { AgentJobContext } from "../agents/context.js";
import type { TaskContext } from "../tasks/context.js";
import type { LogFiles } from "./log-files.js";

/** Context of the handlers of instance logs. */
export interface LogContext extends TaskContext {
  readonly logFiles: LogFiles;
}

/** Context of jobs on instance logs. */
export interface LogJobContext extends AgentJobContext {
  readonly logFiles: LogFiles;
}

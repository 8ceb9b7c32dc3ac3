import type { AgentJobContext } from "../agents/context.js";
import type { TaskContext } from "../tasks/context.js";
import type { LogFiles } from "./log-files.js";

/** Handlers of logs of instances. */
export interface LogContext extends TaskContext {
  readonly logFiles: LogFiles;
}

/** Jobs on logs of instances. */
export interface LogJobContext extends AgentJobContext {
  readonly logFiles: LogFiles;
}

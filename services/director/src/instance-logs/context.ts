import type { AgentJobContext } from "../agents/context.js";
import type { TaskContext } from "../tasks/context.js";
import type { LogFiles } from "./log-files.js";

export interface LogContext extends TaskContext {
  readonly logFiles: LogFiles;
}

export interface LogJobContext extends AgentJobContext {
  readonly logFiles: LogFiles;
}

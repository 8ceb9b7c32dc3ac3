import type { AgentJobContext } from "../agents/context.js";
import type { Events } from "../audit/events.js";
import type { DirectorConfig } from "../config/config.js";
import type { CpiJobContext } from "../cpi/context.js";
import type { TaskContext } from "../tasks/context.js";

/** Dependencies of calls that ask a CPI without a task. */
export type CapacityContext = TaskContext & Pick<CpiJobContext, "configs" | "cpi">;

export interface DiskJobContext extends CpiJobContext, AgentJobContext {
  readonly config: DirectorConfig;
  readonly events: Pick<Events, "record" | "begin" | "flush">;
  readonly newId: () => string;
}

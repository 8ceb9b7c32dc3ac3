import type { AgentHealths } from "../agents/agent-healths.js";
import type { LockKeeper } from "../locks/lock-keeper.js";
import type { TaskContext } from "../tasks/context.js";

export interface InstanceContext extends TaskContext {
  readonly locks: LockKeeper;
  readonly agentHealths: AgentHealths;
}

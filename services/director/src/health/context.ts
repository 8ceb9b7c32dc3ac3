import type { AgentHealths } from "../agents/agent-healths.js";
import type { ConfigContext } from "../configs/context.js";
import type { DeploymentJobContext } from "../deployments/context.js";
import type { LockName } from "../locks/locks.js";

export interface HealthContext extends ConfigContext {
  readonly agentHealths: AgentHealths;
}

export interface HealthJobContext extends DeploymentJobContext {
  /** Returns the task that holds the lock; undefined for a free lock. */
  readonly lockOwner: (lock: LockName) => number | undefined;
}

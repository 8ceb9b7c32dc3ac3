import type { AgentHealths } from "../agents/agent-healths.js";
import type { ConfigContext } from "../configs/context.js";
import type { DeploymentJobContext } from "../deployments/context.js";
import type { LockName } from "../locks/locks.js";

/** Handlers of problems and resurrection. */
export interface HealthContext extends ConfigContext {
  readonly agentHealths: AgentHealths;
}

/** Jobs that find and resolve problems. */
export interface HealthJobContext extends DeploymentJobContext {
  /** The task that holds a lock; undefined for none. */
  readonly lockOwner: (lock: LockName) => number | undefined;
}

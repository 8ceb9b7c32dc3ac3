import type { Clock } from "@diskmesh/service";
import type { DirectorLimits } from "../config/limits.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { TaskContext } from "../tasks/context.js";
import type { AgentCalls } from "./agent-calls.js";
import type { AgentCertificates } from "./agent-certificates.js";

/** Handlers of agents' certificates. */
export interface AgentContext extends TaskContext {
  /** Undefined when agents get no certificates of their own. */
  readonly agentCertificates: AgentCertificates | undefined;
}

/** Steps that ask agents. */
export interface AgentJobContext {
  readonly limits: DirectorLimits;
  readonly tablet: DirectorTablet;
  readonly clock: Clock;
  readonly agents: AgentCalls;
}

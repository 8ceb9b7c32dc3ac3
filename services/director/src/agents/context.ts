import type { Clock } from "@diskmesh/service";
import type { DirectorLimits } from "../config/limits.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { TaskContext } from "../tasks/context.js";
import type { AgentCalls } from "./agent-calls.js";
import type { AgentCertificates } from "./agent-certificates.js";

export interface AgentContext extends TaskContext {
  /** Undefined when agents do not have their own certificates. */
  readonly agentCertificates: AgentCertificates | undefined;
}

export interface AgentJobContext {
  readonly limits: DirectorLimits;
  readonly tablet: DirectorTablet;
  readonly clock: Clock;
  readonly agents: AgentCalls;
}

import type { Logger } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { AgentClients } from "../agents/agent-clients.js";
import type { Fleet } from "../agents/fleet.js";
import type { Liveness } from "../agents/liveness.js";
import type { RefusedAgents } from "../agents/refused-agents.js";
import type { Config } from "../config/config.js";
import type { RegistryLimits } from "../config/limits.js";
import type { RegistryTablet } from "../store/stored-schema.js";
import type { SessionKeys } from "./session-keys.js";

/** Dependencies of the workers. */
export interface WorkContext {
  readonly config: Config;
  readonly limits: RegistryLimits;
  readonly log: Logger;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly tablet: RegistryTablet;
  readonly fleet: Fleet;
  readonly agents: AgentClients;
  readonly liveness: Liveness;
  readonly refusedAgents: RefusedAgents;
  readonly sessionKeys: SessionKeys;
}

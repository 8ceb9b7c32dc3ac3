import type { Logger } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { AgentClients } from "../agents/agent-clients.js";
import type { Fleet } from "../agents/fleet.js";
import type { Liveness } from "../agents/liveness.js";
import type { RefusedAgents } from "../agents/refused-agents.js";
import type { Config } from "../config/config.js";
import type { RegistryLimits } from "../config/limits.js";
import type { OwnWork } from "../model/events/events.js";
import type { RegistryTablet } from "../store/stored-schema.js";
import type { SessionKeys } from "./session-keys.js";

/** Returns the context with a tablet that names the worker as the cause of its changes. */
export function workOf(work: string, { tablet, ...context }: WorkContext): WorkContext {
  const note: OwnWork = { work };
  return {
    ...context,
    tablet: {
      read: (fn) => tablet.read(fn),
      transact: (fn) => tablet.transact(fn, note),
      watch: (listener) => tablet.watch(listener),
    },
  };
}

/** Dependencies of the workers. */
export interface WorkContext {
  readonly config: Config;
  readonly limits: RegistryLimits;
  readonly log: Logger;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly tablet: Pick<RegistryTablet, "read" | "transact" | "watch">;
  readonly fleet: Fleet;
  readonly agents: AgentClients;
  readonly liveness: Liveness;
  readonly refusedAgents: RefusedAgents;
  readonly sessionKeys: SessionKeys;
}

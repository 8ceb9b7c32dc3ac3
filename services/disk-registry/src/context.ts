import type { DiskId, HostId, Logger } from "@diskmesh/domain";
import type { Changes, Clock } from "@diskmesh/service";
import type { Tablet } from "@diskmesh/tablet";
import type { AgentClients } from "./agents/agent-clients.js";
import type { Fleet } from "./agents/fleet.js";
import type { Liveness } from "./agents/liveness.js";
import type { Turns } from "./agents/turns.js";
import type { Config } from "./config.js";
import type { DeviceChanges } from "./device-changes.js";
import type { LastRegistrations, ReportedExport } from "./model/registration.js";
import type { RegistrySchema } from "./model/schema.js";
import type { Workers } from "./workers/workers.js";

export type RegistryTablet = Tablet<RegistrySchema>;

/** What workers need. */
export interface WorkContext {
  readonly config: Config;
  readonly log: Logger;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly tablet: RegistryTablet;
  readonly fleet: Fleet;
  readonly agents: AgentClients;
  readonly liveness: Liveness;
}

/** What handlers need. */
export interface Context extends WorkContext {
  /** By id, after each durable change. */
  readonly diskChanges: Changes<DiskId>;
  readonly deviceChanges: DeviceChanges;
  /** How many calls of WatchDevices run. */
  readonly watchers: { count: number };
  readonly workers: Workers;
  readonly registrationTurns: Turns;
  readonly lastRegistrations: LastRegistrations;
  /** By host, exports of disks that this registry never knew; in memory only, as what they serve is fenced in any case. */
  readonly unknownExports: Map<HostId, readonly ReportedExport[]>;
}

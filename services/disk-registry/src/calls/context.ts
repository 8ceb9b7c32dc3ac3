import type { DiskId, HostId } from "@diskmesh/domain";
import type { KeptLists } from "@diskmesh/rpc";
import type { Changes, LineLimit } from "@diskmesh/service";
import type { Doing } from "../model/events/events.js";
import type { Known } from "../model/explain/cause.js";
import type { LastRegistrations, ReportedExport } from "../model/hosts/registration.js";
import type { RegistryTables } from "../model/store/schema.js";
import type { RegistryTablet } from "../store/stored-schema.js";
import type { TableChanges } from "../workers/table-changes.js";
import type { WorkContext } from "../workers/work-context.js";
import type { Workers } from "../workers/workers.js";

/** What handlers need. */
export interface Context extends WorkContext {
  /** By id, after each durable change. */
  readonly diskChanges: Changes<DiskId>;
  /** What watchers of each kind are told of. */
  readonly tableChanges: { readonly [What in "hosts" | "devices" | "disks"]: TableChanges };
  /** How many calls of WatchHosts, WatchDevices and WatchDisks run. */
  readonly watchers: { count: number };
  readonly lists: KeptLists<RegistryTables>;
  readonly workers: Workers;
  /** For log lines about what agents are refused, beside those of failed calls. */
  readonly refusalLines: LineLimit;
  /**
   * Resolves in a later turn of the event loop, for so many registrations each turn: heartbeats, the store's answers and
   * timers are heard between thousands of registrations that arrive at once.
   */
  readonly registrationTurn: () => Promise<void>;
  readonly lastRegistrations: LastRegistrations;
  /** For what is wrong with things, and why. */
  readonly known: Known;
  /** By host, exports of disks that this registry never knew; in memory only, as what they serve is fenced in any case. */
  readonly unknownExports: Map<HostId, readonly ReportedExport[]>;
}

/** What handlers of changes need: each of their transactions notes who did what. */
export interface ChangeContext extends Omit<Context, "tablet"> {
  readonly tablet: Pick<RegistryTablet, "read" | "transact">;
  readonly doing: Doing;
}

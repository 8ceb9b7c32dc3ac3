import type { DiskId, HostId } from "@diskmesh/domain";
import type { Changes, LineLimit } from "@diskmesh/service";
import type { IoMeter } from "../agents/io-meter.js";
import type { Doing } from "../model/events/events.js";
import type { Known } from "../model/explain/cause.js";
import type { LastRegistrations } from "../model/hosts/registration.js";
import type { ReportedExport } from "../model/hosts/reported-exports.js";
import type { RegistryTablet } from "../store/stored-schema.js";
import type { TableChanges } from "../workers/table-changes.js";
import type { WorkContext } from "../workers/work-context.js";
import type { Workers } from "../workers/workers.js";

/** Dependencies of the handlers. */
export interface Context extends WorkContext {
  readonly tablet: RegistryTablet;
  /** Signals the id of a disk after each durable change of the disk. */
  readonly diskChanges: Changes<DiskId>;
  /** Changes of hosts, devices and disks, read by watchers. */
  readonly tableChanges: { readonly [What in "hosts" | "devices" | "disks"]: TableChanges };
  /** Running calls of WatchHosts, WatchDevices and WatchDisks. */
  readonly watchers: { count: number };
  readonly workers: Workers;
  /** Limits log lines about refused agents, separately from those of failed calls. */
  readonly refusalLines: LineLimit;
  /**
   * Resolves when a registration may run. Each turn of the event loop admits a limited number, so that heartbeats,
   * answers of the store and timers run between thousands of registrations that arrive at once.
   */
  readonly registrationTurn: () => Promise<void>;
  readonly lastRegistrations: LastRegistrations;
  readonly ioMeter: IoMeter;
  /** Facts for `explain` that are not in the tables. */
  readonly known: Known;
  /**
   * Exports of disks that this registry never created, by host. Kept in memory only, because their sessions are fenced
   * in any case.
   */
  readonly unknownExports: Map<HostId, readonly ReportedExport[]>;
}

/** Dependencies of handlers that change state. Each of their transactions records the caller. */
export interface ChangeContext extends Omit<Context, "tablet"> {
  readonly tablet: Pick<RegistryTablet, "read" | "transact">;
  readonly doing: Doing;
}

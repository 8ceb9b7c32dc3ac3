import type { CopyScenarioName } from "./copies/scenarios.js";
import type { SimulationName } from "./run-any-seed.js";
import type { ScenarioName } from "./scenarios.js";

/** Modules whose exports a mutation may replace. The compiler checks each mutation against these types. */
export interface Modules {
  "disk-agent/agent": typeof import("../../../services/disk-agent/src/agent.js");
  "disk-agent/cache/open-ledger": typeof import("../../../services/disk-agent/src/cache/open-ledger.js");
  "disk-agent/devices/device": typeof import("../../../services/disk-agent/src/devices/device.js");
  "disk-agent/devices/device-place": typeof import("../../../services/disk-agent/src/devices/device-place.js");
  "disk-agent/devices/device-table": typeof import("../../../services/disk-agent/src/devices/device-table.js");
  "disk-agent/orders/eraser": typeof import("../../../services/disk-agent/src/orders/eraser.js");
  "disk-agent/orders/session-orders": typeof import("../../../services/disk-agent/src/orders/session-orders.js");
  "disk-agent/mirror/range-locks": typeof import("../../../services/disk-agent/src/mirror/range-locks.js");
  "disk-agent/handlers/order-devices": typeof import("../../../services/disk-agent/src/handlers/order-devices.js");
  "disk-agent/orders/follow-drives": typeof import("../../../services/disk-agent/src/orders/follow-drives.js");
  "disk-agent/labels/run-records": typeof import("../../../services/disk-agent/src/labels/run-records.js");
  "disk-agent/labels/run-tables": typeof import("../../../services/disk-agent/src/labels/run-tables.js");
  "disk-agent/model/copy-mark": typeof import("../../../services/disk-agent/src/model/copy-mark.js");
  "disk-agent/model/copies/copy-record": typeof import("../../../services/disk-agent/src/model/copies/copy-record.js");
  "disk-agent/model/copies/cut": typeof import("../../../services/disk-agent/src/model/copies/cut.js");
  "disk-agent/model/copies/holder": typeof import("../../../services/disk-agent/src/model/copies/holder.js");
  "disk-agent/model/copies/legs": typeof import("../../../services/disk-agent/src/model/copies/legs.js");
  "disk-agent/model/copies/requests": typeof import("../../../services/disk-agent/src/model/copies/requests.js");
  "disk-agent/model/memory": typeof import("../../../services/disk-agent/src/model/memory.js");
  "disk-agent/model/mirror": typeof import("../../../services/disk-agent/src/model/mirror.js");
  "disk-agent/model/orders": typeof import("../../../services/disk-agent/src/model/orders.js");
  "disk-agent/model/registration": typeof import("../../../services/disk-agent/src/model/registration.js");
  "disk-agent/model/runs": typeof import("../../../services/disk-agent/src/model/runs.js");
  "disk-agent/model/sessions": typeof import("../../../services/disk-agent/src/model/sessions.js");
  "disk-agent/calls/registration-wire": typeof import("../../../services/disk-agent/src/calls/registration-wire.js");
  "disk-agent/remote/device-access": typeof import("../../../services/disk-agent/src/remote/device-access.js");
  "disk-agent/workers/heartbeats": typeof import("../../../services/disk-agent/src/workers/heartbeats.js");
  "disk-registry/agents/agent-clients": typeof import("../../../services/disk-registry/src/agents/agent-clients.js");
  "disk-registry/build-context": typeof import("../../../services/disk-registry/src/build-context.js");
  "disk-registry/model/copies/accept": typeof import("../../../services/disk-registry/src/model/copies/accept.js");
  "disk-registry/model/copies/adding": typeof import("../../../services/disk-registry/src/model/copies/adding.js");
  "disk-registry/model/copies/drops": typeof import("../../../services/disk-registry/src/model/copies/drops.js");
  "disk-registry/model/copies/publications": typeof import("../../../services/disk-registry/src/model/copies/publications.js");
  "disk-registry/model/copies/records": typeof import("../../../services/disk-registry/src/model/copies/records.js");
  "disk-registry/model/copies/removing": typeof import("../../../services/disk-registry/src/model/copies/removing.js");
  "disk-registry/model/copies/repairs": typeof import("../../../services/disk-registry/src/model/copies/repairs.js");
  "disk-registry/model/copies/steadiness": typeof import("../../../services/disk-registry/src/model/copies/steadiness.js");
  "disk-registry/model/devices/attach-states": typeof import("../../../services/disk-registry/src/model/devices/attach-states.js");
  "disk-registry/model/devices/orders": typeof import("../../../services/disk-registry/src/model/devices/orders.js");
  "disk-registry/model/disks/copy-marks": typeof import("../../../services/disk-registry/src/model/disks/copy-marks.js");
  "disk-registry/model/disks/moves": typeof import("../../../services/disk-registry/src/model/disks/moves.js");
  "disk-registry/model/disks/placement": typeof import("../../../services/disk-registry/src/model/disks/placement.js");
  "disk-registry/model/disks/publications": typeof import("../../../services/disk-registry/src/model/disks/publications.js");
  "disk-registry/model/disks/session-plan": typeof import("../../../services/disk-registry/src/model/disks/session-plan.js");
  "disk-registry/model/hosts/purge-action": typeof import("../../../services/disk-registry/src/model/hosts/purge-action.js");
  "disk-registry/model/hosts/registration": typeof import("../../../services/disk-registry/src/model/hosts/registration.js");
  "disk-registry/model/disks/remembered": typeof import("../../../services/disk-registry/src/model/disks/remembered.js");
  "disk-registry/model/devices/removal-erase": typeof import("../../../services/disk-registry/src/model/devices/removal-erase.js");
  "disk-registry/model/hosts/removal-step": typeof import("../../../services/disk-registry/src/model/hosts/removal-step.js");
  "disk-registry/model/hosts/remove-action": typeof import("../../../services/disk-registry/src/model/hosts/remove-action.js");
  "disk-registry/model/devices/reported-devices": typeof import("../../../services/disk-registry/src/model/devices/reported-devices.js");
  "disk-registry/model/devices/same-bytes": typeof import("../../../services/disk-registry/src/model/devices/same-bytes.js");
  "disk-registry/model/store/layout": typeof import("../../../services/disk-registry/src/model/store/layout.js");
  "disk-registry/model/store/schema": typeof import("../../../services/disk-registry/src/model/store/schema.js");
  "disk-registry/model/store/slices": typeof import("../../../services/disk-registry/src/model/store/slices.js");
  "disk-registry/model/devices/unknown-disks": typeof import("../../../services/disk-registry/src/model/devices/unknown-disks.js");
  "disk-registry/requests/registration-request": typeof import("../../../services/disk-registry/src/requests/registration-request.js");
  "sim/drive": typeof import("./drive.js");
  "sim/store": typeof import("./store.js");
}

/** Replacement of one export of a module. */
export interface Replacement {
  readonly module: keyof Modules;
  readonly name: string;
  readonly make: (real: never) => unknown;
}

/** A mistake in the code, as proof that the simulator would find it. */
export interface Mutation {
  readonly name: string;
  readonly mistake: string;
  /** Simulator that finds it; undefined: that of whole registries and agents. */
  readonly simulation?: SimulationName;
  /** Maximum number of seeds, from 1 on, within which the mistake is found. */
  readonly withinSeeds: number;
  /** A seed that finds the mistake, tried first. After changes of the simulator another seed may find it. */
  readonly foundBy: number;
  /** Runs only seeds of this scenario; undefined: all seeds. */
  readonly scenario?: ScenarioName | CopyScenarioName;
  readonly replaced: readonly Replacement[];
}

/**
 * Replaces an export. `make` gets the original module. Calls within the module are not replaced, only those of other
 * modules.
 */
export function inPlaceOf<M extends keyof Modules, N extends keyof Modules[M] & string>(
  module: M,
  name: N,
  make: (real: Modules[M]) => Modules[M][N],
): Replacement {
  return { module, name, make };
}

/** Returns the object with some members changed. */
export function changed<T extends object>(object: T, change: Partial<T>): T {
  return new Proxy(object, {
    get: (target, key) => {
      if (key in change) return Reflect.get(change, key);
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

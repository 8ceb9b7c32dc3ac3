import type { DriverHost } from "@diskmesh/driver/host";
import type { Clock } from "@diskmesh/service";
import type { LockKeeper } from "../locks/lock-keeper.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { TaskContext } from "../tasks/context.js";
import type { CallMemory } from "./call-memory.js";
import type { Nodes } from "./nodes.js";
import type { Passthru } from "./passthru.js";

export interface VendorContext extends TaskContext {
  readonly locks: LockKeeper;
  readonly passthru: Passthru;
}

/** The runners of vendor methods. */
interface Vendors {
  /** The director's own drivers. */
  readonly host: Pick<DriverHost, "call" | "hide" | "timeoutOf">;
  readonly nodes: Pick<Nodes, "find">;
  readonly memory: CallMemory;
  /** The id of this director process. Calls begun by drivers of an earlier process have ended. */
  readonly startId: string;
  /** The time within which an agent must report that a method is still running. */
  readonly callTimeoutMs: number;
}

export interface VendorJobContext {
  readonly tablet: DirectorTablet;
  readonly clock: Clock;
  readonly vendors: Vendors;
}

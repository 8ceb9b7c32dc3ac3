import type { DriverHost } from "@diskmesh/driver/host";
import type { Clock } from "@diskmesh/service";
import type { LockKeeper } from "../locks/lock-keeper.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { TaskContext } from "../tasks/context.js";
import type { CallMemory } from "./call-memory.js";
import type { Nodes } from "./nodes.js";
import type { Passthru } from "./passthru.js";

/** Handlers of vendors' methods. */
export interface VendorContext extends TaskContext {
  readonly locks: LockKeeper;
  readonly passthru: Passthru;
}

/** Where vendors' methods are run. */
interface Vendors {
  /** The director's own drivers. */
  readonly host: Pick<DriverHost, "call" | "hide">;
  readonly nodes: Pick<Nodes, "find">;
  readonly memory: CallMemory;
  /** The id of this start of the director: calls that its drivers had begun before have ended. */
  readonly startId: string;
  readonly asyncTimeoutMs: number;
  /** The time for an agent to answer that a method goes on. */
  readonly callTimeoutMs: number;
  /** In [0, 1), for jitter. */
  readonly random: () => number;
}

/** Jobs that call vendors' methods. */
export interface VendorJobContext {
  readonly tablet: DirectorTablet;
  readonly clock: Clock;
  readonly vendors: Vendors;
}

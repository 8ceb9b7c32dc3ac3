import type { EngineName, ServedDisk } from "../engines/engine.js";

/** An export that is served. */
export interface Running {
  readonly sessionNumber: number;
  /** Revision that the disk has reached. Undefined after an adoption: the disk may have the size of an earlier one. */
  revision: number | undefined;
  readonly engine: EngineName;
  /** Why engines that are preferred do not serve the disk; empty for none, and for a disk that was adopted. */
  readonly engineReason: string;
  readonly served: ServedDisk;
  /** True when the disk was served on while the agent restarted. */
  readonly wentOn: boolean;
}

import type { SharedWork } from "../calls/shared-work.js";
import type { DirectorDisks } from "./director-disks.js";

export interface ControllerContext {
  readonly disks: Pick<
    DirectorDisks,
    | "deployment"
    | "get"
    | "trouble"
    | "resize"
    | "setLimits"
    | "capacity"
    | "create"
    | "attach"
    | "detach"
    | "delete"
    | "page"
  >;
  readonly work: SharedWork;
  /** AZs of volumes without a topology requirement. */
  readonly azs: readonly string[];
  /** 0: no limit. */
  readonly maxVolumesPerNode: number;
}

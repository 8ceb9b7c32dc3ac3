import type { SharedWork } from "../calls/shared-work.js";
import type { Place } from "../model/topology.js";
import type { DirectorDisks } from "./director-disks.js";

export interface ControllerContext {
  readonly disks: Pick<
    DirectorDisks,
    | "owner"
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
  /** Places of volumes without a topology requirement. */
  readonly places: readonly Place[];
  /** 0: no limit. */
  readonly maxVolumesPerNode: number;
}

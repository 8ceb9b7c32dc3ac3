import type { SharedWork } from "../calls/shared-work.js";
import type { Place } from "../model/topology.js";
import type { DeviceUses } from "./device-uses.js";

export interface NodeContext {
  /** This node's ID for the orchestrator. */
  readonly nodeId: string;
  readonly place: Place;
  /** Returns the path at which the agent of this node links to a disk's device. */
  readonly linkTo: (diskCid: string) => string;
  /** Folders below which the driver mounts and unmounts. */
  readonly mountFolders: readonly string[];
  /** 0: no limit. */
  readonly maxVolumesPerNode: number;
  readonly uses: DeviceUses;
  readonly work: SharedWork;
}

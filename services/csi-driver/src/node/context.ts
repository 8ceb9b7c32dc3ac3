import type { SharedWork } from "../shared-work.js";

export interface NodeContext {
  readonly instanceId: string;
  readonly az: string;
  /** Folder in which the agent of this node links disks by their CID. */
  readonly dynamicDisksFolder: string;
  /** 0: no limit. */
  readonly maxVolumesPerNode: number;
  readonly work: SharedWork;
}

import type { SharedWork } from "../calls/shared-work.js";
import type { DeviceUses } from "./device-uses.js";

export interface NodeContext {
  readonly instanceId: string;
  readonly az: string;
  /** Folder in which the agent of this node links disks by their CID. */
  readonly dynamicDisksFolder: string;
  /** Folders below which the driver mounts and unmounts. */
  readonly mountFolders: readonly string[];
  /** 0: no limit. */
  readonly maxVolumesPerNode: number;
  readonly uses: DeviceUses;
  readonly work: SharedWork;
}

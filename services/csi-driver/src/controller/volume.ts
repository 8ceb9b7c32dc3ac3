import type { Volume } from "@diskmesh/api/csi";
import type { DynamicDisk } from "@diskmesh/api/director";
import { anywhereIn, topologyOf } from "../model/topology.js";

export function volumeOf({ diskName, sizeBytes, az }: DynamicDisk): Volume {
  return {
    volumeId: diskName,
    capacityBytes: sizeBytes,
    volumeContext: {},
    contentSource: undefined,
    accessibleTopology: [topologyOf(anywhereIn(az))],
  };
}

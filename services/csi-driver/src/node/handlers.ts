import { type NodeDefinition, NodeServiceCapability_RPC_Type as Rpc } from "@diskmesh/api/csi";
import type { SocketHandlers } from "@diskmesh/rpc";
import { topologyOf } from "../model/topology.js";
import type { NodeContext } from "./context.js";
import { publishVolume, unpublishVolume } from "./publish-volume.js";
import { stageVolume, unstageVolume } from "./stage-volume.js";
import { expandVolume, volumeStats } from "./volume-size.js";

const CAPABILITIES = [
  Rpc.STAGE_UNSTAGE_VOLUME,
  Rpc.GET_VOLUME_STATS,
  Rpc.EXPAND_VOLUME,
  Rpc.SINGLE_NODE_MULTI_WRITER,
  Rpc.VOLUME_MOUNT_GROUP,
].map((type) => ({ type: { $case: "rpc" as const, value: { type } } }));

export function nodeHandlers(context: NodeContext): SocketHandlers<typeof NodeDefinition> {
  const { nodeId, place, maxVolumesPerNode } = context;
  return {
    nodeGetCapabilities: async () => ({ capabilities: CAPABILITIES }),
    nodeGetInfo: async () => ({ nodeId, maxVolumesPerNode, accessibleTopology: topologyOf(place) }),
    nodeStageVolume: (request, call) => stageVolume(context, request, call),
    nodeUnstageVolume: (request, call) => unstageVolume(context, request, call),
    nodePublishVolume: (request, call) => publishVolume(context, request, call),
    nodeUnpublishVolume: (request, call) => unpublishVolume(context, request, call),
    nodeGetVolumeStats: (request) => volumeStats(request),
    nodeExpandVolume: (request, call) => expandVolume(context, request, call),
  };
}

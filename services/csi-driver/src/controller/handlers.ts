import {
  type ControllerDefinition,
  ControllerServiceCapability_RPC_Type as Rpc,
  type ValidateVolumeCapabilitiesRequest,
  type ValidateVolumeCapabilitiesResponse,
} from "@diskmesh/api/csi";
import type { SocketHandlers } from "@diskmesh/rpc";
import { problemOf } from "../model/capability.js";
import { needFields } from "../model/required-fields.js";
import { getCapacity } from "./capacity.js";
import { expandVolume, modifyVolume } from "./change-volume.js";
import type { ControllerContext } from "./context.js";
import { createVolume } from "./create-volume.js";
import { listVolumes } from "./list-volumes.js";
import { deleteVolume, publishVolume, unpublishVolume } from "./publish-volume.js";
import { volumeDisk } from "./volume-disk.js";
import { volumeHealth } from "./volume-health.js";

const CAPABILITIES = [
  Rpc.CREATE_DELETE_VOLUME,
  Rpc.PUBLISH_UNPUBLISH_VOLUME,
  Rpc.LIST_VOLUMES,
  Rpc.LIST_VOLUMES_PUBLISHED_NODES,
  Rpc.GET_CAPACITY,
  Rpc.PUBLISH_READONLY,
  Rpc.EXPAND_VOLUME,
  Rpc.MODIFY_VOLUME,
  Rpc.SINGLE_NODE_MULTI_WRITER,
  Rpc.GET_VOLUME_HEALTH,
].map((type) => ({ type: { $case: "rpc" as const, value: { type } } }));

export function controllerHandlers(context: ControllerContext): SocketHandlers<typeof ControllerDefinition> {
  return {
    controllerGetCapabilities: async () => ({ capabilities: CAPABILITIES }),
    createVolume: (request, call) => createVolume(context, request, call),
    deleteVolume: (request, call) => deleteVolume(context, request, call),
    controllerPublishVolume: (request, call) => publishVolume(context, request, call),
    controllerUnpublishVolume: (request, call) => unpublishVolume(context, request, call),
    validateVolumeCapabilities: (request) => validateCapabilities(context, request),
    controllerExpandVolume: (request, call) => expandVolume(context, request, call),
    controllerModifyVolume: (request, call) => modifyVolume(context, request, call),
    controllerGetVolumeHealth: (request) => volumeHealth(context, request),
    getCapacity: (request) => getCapacity(context, request),
    listVolumes: (request) => listVolumes(context, request),
  };
}

async function validateCapabilities(
  context: ControllerContext,
  { volumeId, volumeCapabilities, volumeContext, parameters, mutableParameters }: ValidateVolumeCapabilitiesRequest,
): Promise<Partial<ValidateVolumeCapabilitiesResponse>> {
  needFields({ volume_id: volumeId, volume_capabilities: volumeCapabilities });
  await volumeDisk(context, volumeId);
  const message = volumeCapabilities.map(problemOf).find((problem) => problem !== undefined);
  if (message !== undefined) return { message };
  return { confirmed: { volumeCapabilities, volumeContext, parameters, mutableParameters } };
}

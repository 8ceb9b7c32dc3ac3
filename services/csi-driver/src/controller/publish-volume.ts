import type {
  ControllerPublishVolumeRequest,
  ControllerPublishVolumeResponse,
  ControllerUnpublishVolumeRequest,
} from "@diskmesh/api/csi";
import type { DynamicDisk } from "@diskmesh/api/director";
import {
  AlreadyExistsError,
  InvalidStateError,
  NotFoundError,
  parseId,
  ResourceExhaustedError,
} from "@diskmesh/domain";
import type { SocketCall } from "@diskmesh/rpc";
import { slotsOfEach } from "@diskmesh/service";
import { accessOf } from "../model/capability.js";
import { ATTACHMENT_ID, DISK_CID, IS_FIRST_ATTACHMENT } from "../model/publish-context.js";
import { needFields } from "../model/required-fields.js";
import { shownVolume } from "../model/shown.js";
import type { ControllerContext } from "./context.js";
import { volumesOn } from "./list-volumes.js";
import { findDisk, volumeDisk } from "./volume-disk.js";

/** Attachments of one node begin one after the other, so that each counts the ones before it. */
const oneForEachNode = slotsOfEach(1);

export async function publishVolume(
  context: ControllerContext,
  request: ControllerPublishVolumeRequest,
  call: SocketCall,
): Promise<Partial<ControllerPublishVolumeResponse>> {
  const { volumeId, nodeId, volumeCapability, readonly } = request;
  needFields({ volume_id: volumeId, node_id: nodeId, volume_capability: volumeCapability });
  const { isReadOnly } = accessOf(volumeCapability, readonly);
  const publishContext = await context.work.run(volumeId, "ControllerPublishVolume", request, call, () =>
    publish(context, volumeId, nodeId, isReadOnly),
  );
  return { publishContext };
}

async function publish(
  context: ControllerContext,
  volumeId: string,
  nodeId: string,
  isReadOnly: boolean,
): Promise<Record<string, string>> {
  const { disks, maxVolumesPerNode } = context;
  const disk = await volumeDisk(context, volumeId);
  refuseUnknownNode(nodeId);
  if (disk.instanceId !== "" && disk.instanceId !== nodeId)
    throw new InvalidStateError(
      `${shownVolume(volumeId, disk.metadata)} is attached to node ${disk.instanceId}: delete the pod that uses it there, ` +
        "and taint the node as out of service if it is lost",
      {
        reason: "DISK_IN_USE",
        about: { volume_id: volumeId, node_id: disk.instanceId },
      },
    );
  if (disk.instanceId === nodeId && disk.readOnly !== isReadOnly)
    throw new AlreadyExistsError(
      `${shownVolume(volumeId, disk.metadata)} is attached to node ${nodeId} ${disk.readOnly ? "for reading" : "for writing"}: ` +
        "delete the pods that use it there",
    );
  const attach = () => disks.attach(volumeId, nodeId, isReadOnly);
  const isNew = disk.instanceId === "" && maxVolumesPerNode > 0;
  const attached = isNew
    ? await oneForEachNode(nodeId).run(async () => {
        await refuseAboveLimit(context, nodeId);
        return attach();
      })
    : await attach();
  return publishContextOf(attached);
}

function publishContextOf({ diskCid, attachmentId, firstAttachment }: DynamicDisk): Record<string, string> {
  return { [DISK_CID]: diskCid, [ATTACHMENT_ID]: attachmentId, [IS_FIRST_ATTACHMENT]: `${firstAttachment}` };
}

async function refuseAboveLimit(context: ControllerContext, nodeId: string): Promise<void> {
  const { maxVolumesPerNode } = context;
  const count = await volumesOn(context, nodeId);
  if (count < maxVolumesPerNode) return;
  throw new ResourceExhaustedError(
    `node ${nodeId} has ${count} volumes: maxVolumesPerNode of the driver's config allows ${maxVolumesPerNode}`,
    { about: { node_id: nodeId } },
  );
}

/** Throws NotFoundError for an ID that no instance can have. The director finds other unknown nodes. */
function refuseUnknownNode(nodeId: string): void {
  try {
    parseId("node_id", nodeId);
  } catch (error) {
    throw new NotFoundError(`node ${JSON.stringify(nodeId)} does not exist`, { cause: error });
  }
}

/** Detaches the volume if the node still has it. The detached attachment is the one that the call finds at its start. */
export async function unpublishVolume(
  context: ControllerContext,
  request: ControllerUnpublishVolumeRequest,
  call: SocketCall,
): Promise<object> {
  const { volumeId, nodeId } = request;
  needFields({ volume_id: volumeId });
  await context.work.run(volumeId, "ControllerUnpublishVolume", request, call, async () => {
    const { instanceId = "", attachmentId = "" } = (await findDisk(context, volumeId)) ?? {};
    if (instanceId === "" || (nodeId !== "" && nodeId !== instanceId)) return;
    await context.disks.detach(volumeId, attachmentId).catch(unlessNotFound);
  });
  return {};
}

export async function deleteVolume(
  context: ControllerContext,
  request: { readonly volumeId: string },
  call: SocketCall,
): Promise<object> {
  const { volumeId } = request;
  needFields({ volume_id: volumeId });
  await context.work.run(volumeId, "DeleteVolume", request, call, async () => {
    if ((await findDisk(context, volumeId)) === undefined) return;
    await context.disks.delete(volumeId).catch(unlessNotFound);
  });
  return {};
}

function unlessNotFound(error: unknown): void {
  if (!(error instanceof NotFoundError)) throw error;
}

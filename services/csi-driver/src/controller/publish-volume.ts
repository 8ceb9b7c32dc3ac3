import type {
  ControllerPublishVolumeRequest,
  ControllerPublishVolumeResponse,
  ControllerUnpublishVolumeRequest,
} from "@diskmesh/api/csi";
import type { DynamicDisk } from "@diskmesh/api/director";
import { AlreadyExistsError, InvalidStateError, NotFoundError, ResourceExhaustedError } from "@diskmesh/domain";
import type { SocketCall } from "@diskmesh/rpc";
import { slotsOfEach } from "@diskmesh/service";
import { accessOf } from "../model/capability.js";
import { type Node, nodeIdOf, parseNodeId } from "../model/node-id.js";
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
  const node = nodeOf(nodeId);
  const [wanted, present] = [nodeIdOf(node), nodeIdOf(disk)];
  if (present !== "" && present !== wanted)
    throw new InvalidStateError(
      `${shownVolume(volumeId, disk.metadata)} is attached to node ${present}: delete the pod that uses it there, ` +
        "and taint the node as out of service if it is lost",
      {
        reason: "DISK_IN_USE",
        about: { volume_id: volumeId, node_id: present },
      },
    );
  if (present === wanted && disk.readOnly !== isReadOnly)
    throw new AlreadyExistsError(
      `${shownVolume(volumeId, disk.metadata)} is attached to node ${nodeId} ${disk.readOnly ? "for reading" : "for writing"}: ` +
        "delete the pods that use it there",
    );
  const attach = () => disks.attach(volumeId, node, isReadOnly);
  const isNew = present === "" && maxVolumesPerNode > 0;
  const attached = isNew
    ? await oneForEachNode(wanted).run(async () => {
        await refuseAboveLimit(context, node);
        return attach();
      })
    : await attach();
  return publishContextOf(attached);
}

function publishContextOf({ diskCid, attachmentId, firstAttachment }: DynamicDisk): Record<string, string> {
  return { [DISK_CID]: diskCid, [ATTACHMENT_ID]: attachmentId, [IS_FIRST_ATTACHMENT]: `${firstAttachment}` };
}

async function refuseAboveLimit(context: ControllerContext, node: Node): Promise<void> {
  const { maxVolumesPerNode } = context;
  const count = await volumesOn(context, node);
  if (count < maxVolumesPerNode) return;
  const nodeId = nodeIdOf(node);
  throw new ResourceExhaustedError(
    `node ${nodeId} has ${count} volumes: maxVolumesPerNode of the driver's config allows ${maxVolumesPerNode}`,
    { about: { node_id: nodeId } },
  );
}

/** Throws NotFoundError for an ID that no node can have. The director finds other unknown nodes. */
function nodeOf(nodeId: string): Node {
  try {
    return parseNodeId(nodeId);
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
    const disk = await findDisk(context, volumeId);
    if (disk === undefined || nodeIdOf(disk) === "" || (nodeId !== "" && !isOn(disk, nodeId))) return;
    await context.disks.detach(volumeId, disk.attachmentId).catch(unlessNotFound);
  });
  return {};
}

function isOn(disk: DynamicDisk, nodeId: string): boolean {
  try {
    return nodeIdOf(parseNodeId(nodeId)) === nodeIdOf(disk);
  } catch {
    return false;
  }
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

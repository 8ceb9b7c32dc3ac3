import type { NodeStageVolumeRequest, NodeUnstageVolumeRequest } from "@diskmesh/api/csi";
import { AlreadyExistsError, InvalidStateError } from "@diskmesh/domain";
import type { SocketCall } from "@diskmesh/rpc";
import { accessOf, type Capability, type MountAccess } from "../model/capability.js";
import type { MountEntry } from "../model/mount-info.js";
import { DISK_CID } from "../model/publish-context.js";
import { needFields, needPath } from "../model/required-fields.js";
import type { NodeContext } from "./context.js";
import { deviceOf, type NodeDevice } from "./device.js";
import { prepareFileSystem } from "./file-system.js";
import { giveToGroup } from "./group-access.js";
import { mountAt, mountDevice, unmount } from "./mounts.js";

/** Mounts the volume's file system at the staging path. A block volume needs its device only. */
export async function stageVolume(
  context: NodeContext,
  request: NodeStageVolumeRequest,
  call: SocketCall,
): Promise<object> {
  const { volumeId, stagingTargetPath, volumeCapability, publishContext } = request;
  needFields({ volume_id: volumeId });
  needPath("staging_target_path", stagingTargetPath);
  const { mount, isReadOnly } = accessOf(volumeCapability);
  await context.work.run(volumeId, "NodeStageVolume", request, call, async () => {
    const device = await deviceOf(context.dynamicDisksFolder, publishContext[DISK_CID]);
    if (mount !== undefined) await stage(device, stagingTargetPath, mount, isReadOnly);
  });
  return {};
}

async function stage(device: NodeDevice, path: string, access: MountAccess, isReadOnly: boolean): Promise<void> {
  const { fileSystem, flags, groupId } = access;
  const mounted = await mountAt(path);
  if (mounted !== undefined) {
    refuseOther(mounted, device, fileSystem, isReadOnly);
  } else {
    await prepareFileSystem(device, fileSystem, isReadOnly);
    await mountDevice(device.path, path, fileSystem, isReadOnly ? [...flags, "ro"] : flags);
  }
  if (groupId !== undefined && !isReadOnly) await giveToGroup(path, groupId);
}

/**
 * Returns the staged mount of the device. Stages the volume again when the mount is of a device that has ended, e.g. with
 * its agent, because the kubelet does not for a pod that replaces another one on the same node. A mount stays when the
 * new device cannot be used.
 */
export async function stagedOn(
  device: NodeDevice,
  staged: MountEntry,
  capability: Capability | undefined,
): Promise<MountEntry> {
  const { mount, isReadOnly } = accessOf(capability);
  if (staged.device === device.number || mount === undefined) return staged;
  await prepareFileSystem(device, mount.fileSystem, isReadOnly);
  await unmount(staged.path);
  await stage(device, staged.path, mount, isReadOnly);
  return needStaged(staged.path);
}

/** Throws InvalidStateError when nothing is mounted at the staging path. */
export async function needStaged(path: string): Promise<MountEntry> {
  const staged = await mountAt(path);
  if (staged !== undefined) return staged;
  throw new InvalidStateError(`nothing is mounted at the staging path ${path}: stage the volume first`);
}

function refuseOther(mounted: MountEntry, device: NodeDevice, fileSystem: string, isReadOnly: boolean): void {
  const { path } = mounted;
  // The device of an attachment that has ended, e.g. by a fence. Its mount can only fail.
  if (mounted.device !== device.number)
    throw new InvalidStateError(`${path} has a mount of ${mounted.source}, not of ${device.path}: unstage it first`);
  if (mounted.fsType !== fileSystem || mounted.isReadOnly !== isReadOnly) {
    const mode = mounted.isReadOnly ? "for reading" : "for writing";
    throw new AlreadyExistsError(`the volume is staged at ${path} with ${mounted.fsType}, ${mode}`);
  }
}

/** Unmounts the staging path. Needs neither the controller nor the device, which a fence may have ended. */
export async function unstageVolume(
  { work }: NodeContext,
  request: NodeUnstageVolumeRequest,
  call: SocketCall,
): Promise<object> {
  const { volumeId, stagingTargetPath } = request;
  needFields({ volume_id: volumeId });
  needPath("staging_target_path", stagingTargetPath);
  await work.run(volumeId, "NodeUnstageVolume", request, call, () => unmount(stagingTargetPath));
  return {};
}

import type { NodeStageVolumeRequest, NodeUnstageVolumeRequest } from "@diskmesh/api/csi";
import { AlreadyExistsError, InvalidStateError } from "@diskmesh/domain";
import type { SocketCall } from "@diskmesh/rpc";
import { accessOf, type MountAccess } from "../model/capability.js";
import type { MountEntry } from "../model/mount-info.js";
import { ATTACHMENT_ID, DISK_CID, IS_FIRST_ATTACHMENT } from "../model/publish-context.js";
import { needFields, needPath } from "../model/required-fields.js";
import { shownPath } from "../model/shown.js";
import type { NodeContext } from "./context.js";
import { deviceOf, type NodeDevice } from "./device.js";
import { type Formatting, prepareFileSystem } from "./file-system.js";
import { giveToGroup } from "./group-access.js";
import { allMounts, mountAt, mountDevice, unmount, unmountForGood } from "./mounts.js";
import { checkUsable, hasStopped } from "./usable.js";

/** The parts of a request that say what is staged, and where. */
type Staging = Pick<NodeStageVolumeRequest, "volumeId" | "stagingTargetPath" | "volumeCapability" | "publishContext">;

/** Mounts the volume's file system at the staging path. A block volume needs its device only. */
export async function stageVolume(
  context: NodeContext,
  request: NodeStageVolumeRequest,
  call: SocketCall,
): Promise<object> {
  const { volumeId, stagingTargetPath, volumeCapability, publishContext } = request;
  needFields({ volume_id: volumeId });
  needPath("staging_target_path", stagingTargetPath, context.mountFolders);
  const { mount } = accessOf(volumeCapability);
  await context.work.run(volumeId, "NodeStageVolume", request, call, async () => {
    const device = await deviceOf(context, publishContext[DISK_CID]);
    if (mount !== undefined) await stage(context, device, request, mount);
    else await recordUse(context, request);
  });
  return {};
}

async function stage(context: NodeContext, device: NodeDevice, staging: Staging, access: MountAccess): Promise<void> {
  const { stagingTargetPath: path, volumeCapability } = staging;
  const { isReadOnly } = accessOf(volumeCapability);
  const { fileSystem, flags, groupId } = access;
  const mounted = await mountAt(path);
  if (mounted !== undefined) {
    refuseOther(mounted, device, fileSystem, isReadOnly);
    await checkUsable(mounted);
  } else {
    await prepareFileSystem(device, fileSystem, isReadOnly, await formattingOf(context, staging));
    await recordUse(context, staging);
    // A file system that goes on after an error of its device damages more.
    const onError = fileSystem === "ext4" ? ["errors=remount-ro"] : [];
    await mountDevice(device.path, path, fileSystem, [...flags, ...onError, ...(isReadOnly ? ["ro"] : [])]);
  }
  if (groupId !== undefined && !isReadOnly) await giveToGroup(path, groupId);
}

/** Returns what the director and this node's record say about earlier uses of the device. */
async function formattingOf({ uses }: NodeContext, { volumeId, publishContext }: Staging): Promise<Formatting> {
  const { [ATTACHMENT_ID]: attachmentId = "", [IS_FIRST_ATTACHMENT]: isFirst } = publishContext;
  const use = await uses.get(volumeId, attachmentId);
  return {
    isNew: isFirst === "true" && attachmentId !== "" && use === undefined,
    wasInterrupted: use === "formatting",
    begins: () => uses.put(volumeId, attachmentId, "formatting"),
  };
}

/** Records, before anybody can write to the device, that somebody may have. */
async function recordUse({ uses }: NodeContext, { volumeId, publishContext }: Staging): Promise<void> {
  const { [ATTACHMENT_ID]: attachmentId = "" } = publishContext;
  if ((await uses.get(volumeId, attachmentId)) !== "used") await uses.put(volumeId, attachmentId, "used");
}

/**
 * Returns the staged mount of the device. Stages the volume again when the mount is of a device that has ended, e.g. with
 * its agent, or when its file system stopped after errors, because the kubelet does not for a pod that replaces another
 * one on the same node. A mount of an ended device stays when the new device cannot be used.
 */
export async function stagedOn(
  context: NodeContext,
  device: NodeDevice,
  staged: MountEntry,
  staging: Staging,
): Promise<MountEntry> {
  const { mount, isReadOnly } = accessOf(staging.volumeCapability);
  if (mount === undefined) return staged;
  const isSame = staged.device === device.number;
  if (isSame && !hasStopped(staged)) {
    await checkUsable(staged);
    return staged;
  }
  if (isSame) {
    await refuseSharedRepair(staged);
    await unmountForGood(staged.path);
  } else {
    await prepareFileSystem(device, mount.fileSystem, isReadOnly, await formattingOf(context, staging));
    // Other pods may still have the device that has ended.
    await unmount(staged.path);
  }
  await stage(context, device, staging, mount);
  return needStaged(staged.path);
}

/** A file system is checked while nobody has it mounted. */
async function refuseSharedRepair({ device, path, source }: MountEntry): Promise<void> {
  const other = (await allMounts()).find((mount) => mount.device === device && mount.path !== path);
  if (other !== undefined)
    throw new InvalidStateError(
      `the file system of ${source} takes no writes: the kernel stopped it after errors. It is checked and mounted again when ` +
        `nobody uses it: delete the pod at ${shownPath(other.path)}`,
    );
}

/** Throws InvalidStateError when nothing is mounted at the staging path. */
export async function needStaged(path: string): Promise<MountEntry> {
  const staged = await mountAt(path);
  if (staged !== undefined) return staged;
  throw new InvalidStateError(
    `nothing is mounted at the staging path ${path}: delete the pod, so that its volume is staged again`,
  );
}

function refuseOther(mounted: MountEntry, device: NodeDevice, fileSystem: string, isReadOnly: boolean): void {
  const { path } = mounted;
  // The device of an attachment that has ended, e.g. by a fence. Its mount can only fail.
  if (mounted.device !== device.number)
    throw new InvalidStateError(
      `${path} has a mount of ${mounted.source}, not of ${device.path}: delete the pods of this node that use the volume`,
    );
  if (mounted.fsType !== fileSystem || mounted.isReadOnly !== isReadOnly) {
    const mode = mounted.isReadOnly ? "for reading" : "for writing";
    throw new AlreadyExistsError(`the volume is staged at ${path} with ${mounted.fsType}, ${mode}`);
  }
}

/**
 * Writes back and unmounts the staging path. Needs neither the controller nor the device, which a fence may have ended.
 */
export async function unstageVolume(
  { work, mountFolders }: NodeContext,
  request: NodeUnstageVolumeRequest,
  call: SocketCall,
): Promise<object> {
  const { volumeId, stagingTargetPath } = request;
  needFields({ volume_id: volumeId });
  needPath("staging_target_path", stagingTargetPath, mountFolders);
  await work.run(volumeId, "NodeUnstageVolume", request, call, () => unmountForGood(stagingTargetPath));
  return {};
}

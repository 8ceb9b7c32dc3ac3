import { mkdir, rmdir, unlink, writeFile } from "node:fs/promises";
import type { NodePublishVolumeRequest, NodeUnpublishVolumeRequest } from "@diskmesh/api/csi";
import { AlreadyExistsError, InvalidStateError } from "@diskmesh/domain";
import type { SocketCall } from "@diskmesh/rpc";
import { type Access, accessOf } from "../model/capability.js";
import type { MountEntry } from "../model/mount-info.js";
import { DISK_CID } from "../model/publish-context.js";
import { needFields, needPath } from "../model/required-fields.js";
import { shownPath } from "../model/shown.js";
import type { NodeContext } from "./context.js";
import { deviceAt, deviceOf, isReadOnlyDevice, type NodeDevice } from "./device.js";
import { giveToGroup } from "./group-access.js";
import { allMounts, bindMount, makeReadOnly, mountAt, unmount } from "./mounts.js";
import { needStaged, stagedOn } from "./stage-volume.js";
import { checkUsable } from "./usable.js";

/** Mounts the staged file system, or the device of a block volume, at the target path. */
export async function publishVolume(
  context: NodeContext,
  request: NodePublishVolumeRequest,
  call: SocketCall,
): Promise<object> {
  const { volumeId, targetPath, stagingTargetPath, volumeCapability, readonly, publishContext } = request;
  needFields({ volume_id: volumeId });
  needPath("target_path", targetPath, context.mountFolders);
  const access = accessOf(volumeCapability, readonly);
  if (stagingTargetPath === "") throw new InvalidStateError("staging_target_path is missing: stage the volume first");
  needPath("staging_target_path", stagingTargetPath, context.mountFolders);
  await context.work.run(volumeId, "NodePublishVolume", request, call, async () => {
    const deviceOfDisk = () => deviceOf(context, publishContext[DISK_CID]);
    if (access.mount === undefined) await publishDevice(await deviceOfDisk(), targetPath, access);
    else await publishMount(context, request, access, deviceOfDisk);
  });
  return {};
}

async function publishMount(
  context: NodeContext,
  request: NodePublishVolumeRequest,
  access: Access,
  deviceOfDisk: () => Promise<NodeDevice>,
): Promise<void> {
  const { stagingTargetPath: stagingPath, targetPath } = request;
  const found = await needStaged(stagingPath);
  const published = await mountAt(targetPath);
  if (published !== undefined) {
    await acceptPublished(published, published.device === found.device, access);
    await checkUsable(found);
    return;
  }
  const staged = await stagedOn(context, await deviceOfDisk(), found, request);
  const others = (await allMounts()).filter(({ device, path }) => device === staged.device && path !== staged.path);
  refuseSecondPath(others, access);
  await mkdir(targetPath).catch(unlessCode("EEXIST"));
  // A pod that shares the staged volume may have another group.
  const groupId = access.mount?.groupId;
  if (groupId !== undefined && !staged.isReadOnly && !access.isReadOnly) await giveToGroup(stagingPath, groupId);
  await bindMount(stagingPath, targetPath, access.isReadOnly);
}

async function publishDevice(device: NodeDevice, targetPath: string, access: Access): Promise<void> {
  if (access.isReadOnly && !(await isReadOnlyDevice(device)))
    throw new InvalidStateError(
      `${device.path} allows writes: a block volume for reading needs a disk attached for reading`,
    );
  const published = await mountAt(targetPath);
  if (published !== undefined) {
    const isSame = (await deviceAt(targetPath))?.number === device.number;
    await acceptPublished(published, isSame, { ...access, isReadOnly: published.isReadOnly });
    return;
  }
  const node = device.path.replace(/^\/dev/, "");
  refuseSecondPath(
    (await allMounts()).filter(({ root }) => root === node),
    access,
  );
  await writeFile(targetPath, "", { flag: "a" });
  await bindMount(device.path, targetPath, false);
}

/** Throws AlreadyExistsError when the mount at the target path is not the requested one. */
async function acceptPublished(published: MountEntry, isSame: boolean, { isReadOnly }: Access): Promise<void> {
  const { path, source } = published;
  if (!isSame) throw new AlreadyExistsError(`${path} has a mount of ${source}: delete the pod that has it`);
  if (published.isReadOnly && !isReadOnly)
    throw new AlreadyExistsError(`the volume is mounted at ${path} for reading only: delete the pod that has it`);
  // An interrupted publication has mounted the path, but not yet made it read only.
  if (isReadOnly && !published.isReadOnly) await makeReadOnly(path);
}

function refuseSecondPath(others: readonly MountEntry[], { isShared }: Access): void {
  const [other] = others;
  if (isShared || other === undefined) return;
  throw new InvalidStateError(
    `the volume is mounted at ${shownPath(other.path)}, and its access mode allows one pod: delete that pod first`,
  );
}

/** Unmounts the target path and removes it. */
export async function unpublishVolume(
  { work, mountFolders }: NodeContext,
  request: NodeUnpublishVolumeRequest,
  call: SocketCall,
): Promise<object> {
  const { volumeId, targetPath } = request;
  needFields({ volume_id: volumeId });
  needPath("target_path", targetPath, mountFolders);
  await work.run(volumeId, "NodeUnpublishVolume", request, call, async () => {
    await unmount(targetPath);
    await removeTarget(targetPath).catch(unlessCode("ENOENT"));
  });
  return {};
}

/** Removes an empty folder or a file. Never removes anything in a folder, since that would be a volume's content. */
async function removeTarget(path: string): Promise<void> {
  await rmdir(path).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOTDIR") throw error;
    await unlink(path);
  });
}

function unlessCode(code: string): (error: unknown) => void {
  return (error) => {
    if ((error as NodeJS.ErrnoException).code !== code) throw error;
  };
}

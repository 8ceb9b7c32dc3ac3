import { join } from "node:path";
import type { DynamicDisk, Instance } from "@diskmesh/api/director";
import { InvalidStateError, MIB_BYTES, NotFoundError } from "@diskmesh/domain";
import type { MeshLayout } from "../mesh/layout.js";
import { DISK_TYPE } from "./deployment.js";
import { runTask, type Scene, waitFor } from "./scene.js";

export const DISK_NAME = "demo-disk";
export const DISK_SIZE_BYTES = 32 * MIB_BYTES;

/** Returns the disk as the director knows it; undefined when there is none. */
export async function findDisk(scene: Scene): Promise<DynamicDisk | undefined> {
  const { disk } = await waitFor(scene, `disk ${DISK_NAME}`, async () => {
    try {
      return await scene.clients.disks.getDynamicDisk({ diskName: DISK_NAME });
    } catch (error) {
      if (error instanceof NotFoundError) return { disk: undefined };
      throw error;
    }
  });
  return disk;
}

/** Creates the disk if there is none, and attaches it to the instance's VM. */
export async function provideDisk(scene: Scene, instance: Instance): Promise<DynamicDisk> {
  const request = {
    diskName: DISK_NAME,
    instanceId: instance.instanceId,
    diskPoolName: DISK_TYPE,
    sizeBytes: DISK_SIZE_BYTES,
    wait: true,
  };
  await runTask(scene, `provide ${DISK_NAME}`, () => scene.clients.disks.provideDynamicDisk(request));
  const disk = await findDisk(scene);
  if (disk?.instanceId !== instance.instanceId)
    throw new InvalidStateError(
      `${DISK_NAME} is attached to ${disk?.instanceId || "nothing"}, not to ${instance.instanceId}`,
    );
  return disk;
}

/**
 * Takes the disk from the host that serves it, whose programs may have it in use: a detach would wait for them. Returns
 * the host.
 */
export async function fenceUser(scene: Scene, diskId: string): Promise<string> {
  const { registry } = scene.clients;
  return waitFor(scene, `the fence of disk ${diskId}`, async () => {
    const { disk } = await registry.getDisk({ diskId });
    const hostId = disk?.publication?.hostId ?? "";
    if (hostId !== "") await registry.fenceHost({ hostId, reason: "the story moves its disk" });
    return hostId;
  });
}

/** Detaches the disk from its VM; does nothing when it is not attached. */
export async function detachDisk(scene: Scene): Promise<void> {
  await runTask(scene, `detach ${DISK_NAME}`, () =>
    scene.clients.disks.detachDynamicDisk({ diskName: DISK_NAME, wait: true }),
  );
}

/**
 * Returns the path of the link by which an instance's programs find the disk. The instance's agent creates the link.
 */
export function linkOf(layout: MeshLayout, agentId: string, diskCid: string): string {
  return join(layout.dynamicDisksFolder(agentId), diskCid);
}

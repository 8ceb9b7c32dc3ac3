import { createHash } from "node:crypto";
import { mkdir, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  ControllerPublishVolumeRequest,
  ControllerUnpublishVolumeRequest,
  CreateVolumeRequest,
  DeleteVolumeRequest,
  NodePublishVolumeRequest,
  NodeStageVolumeRequest,
  NodeUnpublishVolumeRequest,
  NodeUnstageVolumeRequest,
} from "@diskmesh/api/csi";
import type { SocketCall } from "@diskmesh/rpc";
import { slotsOfEach } from "@diskmesh/service";
import type { ControllerContext } from "../controller/context.js";
import { createVolume } from "../controller/create-volume.js";
import { allVolumes } from "../controller/list-volumes.js";
import { publishVolume as attach, deleteVolume, unpublishVolume as detach } from "../controller/publish-volume.js";
import { volumeDisk } from "../controller/volume-disk.js";
import { volumeIdOf } from "../controller/volume-id.js";
import { requiredBytesOf } from "../model/docker-size.js";
import { type MountEntry, mountedAt } from "../model/mount-info.js";
import type { NodeContext } from "../node/context.js";
import { allMounts } from "../node/mounts.js";
import { publishVolume, unpublishVolume } from "../node/publish-volume.js";
import { stageVolume, unstageVolume } from "../node/stage-volume.js";

/** Docker gives up after 2 minutes. */
const CALL_TIMEOUT_MS = 110_000;

/** Several containers of one host may use a volume. */
const CAPABILITY = {
  accessType: { $case: "mount" as const, value: {} },
  accessMode: { mode: "SINGLE_NODE_MULTI_WRITER" as const },
};

export interface DockerContext {
  readonly controller: ControllerContext;
  readonly node: NodeContext;
  /** Folder in which volumes are mounted, without symbolic links. */
  readonly folder: string;
  /** Kind of volumes without the option for it. */
  readonly parameters: Readonly<Record<string, string>>;
}

interface DockerVolume {
  readonly Name: string;
  /** Empty for a volume that is not mounted here. */
  readonly Mountpoint: string;
}

/**
 * The volumes of a Docker daemon. The driver mounts a volume once, and binds it to a path for each of its users. The
 * kernel's mounts therefore say who uses it, also after a restart of the driver.
 */
export class DockerVolumes {
  readonly #oneForEachVolume = slotsOfEach(1);

  constructor(private readonly context: DockerContext) {}

  async create(name: string, options: Readonly<Record<string, string>>): Promise<void> {
    const { size, ...parameters } = options;
    const request = CreateVolumeRequest.fromPartial({
      name,
      parameters: { ...this.context.parameters, ...parameters },
      capacityRange: { requiredBytes: requiredBytesOf(size) },
      volumeCapabilities: [CAPABILITY],
    });
    await createVolume(this.context.controller, request, newCall());
  }

  async remove(name: string): Promise<void> {
    const request = DeleteVolumeRequest.fromPartial({ volumeId: this.#idOf(name) });
    await deleteVolume(this.context.controller, request, newCall());
  }

  /** Mounts the volume for one user, whose ID the daemon chose. Returns the path of the volume. */
  async mount(name: string, user: string): Promise<string> {
    const volumeId = this.#idOf(name);
    return this.#oneForEachVolume(volumeId).run(async () => {
      try {
        return await this.#mount(volumeId, user);
      } catch (error) {
        // The daemon does not unmount what it could not mount.
        await this.#unmount(volumeId, user).catch(() => {});
        throw error;
      }
    });
  }

  /** Ends one use of the volume, and with the last one its attachment to this node. */
  async unmount(name: string, user: string): Promise<void> {
    const volumeId = this.#idOf(name);
    await this.#oneForEachVolume(volumeId).run(() => this.#unmount(volumeId, user));
  }

  async get(name: string): Promise<DockerVolume> {
    const volumeId = this.#idOf(name);
    await volumeDisk(this.context.controller, volumeId);
    return this.#volume(name, volumeId, await allMounts());
  }

  async list(): Promise<DockerVolume[]> {
    const mounts = await allMounts();
    const disks = await allVolumes(this.context.controller);
    return disks.map(({ diskName, metadata }) => this.#volume(String(metadata?.csi_name ?? ""), diskName, mounts));
  }

  async #mount(volumeId: string, user: string): Promise<string> {
    const { controller, node } = this.context;
    const { stagingTargetPath, users, targetPath } = this.#pathsOf(volumeId, user);
    const wanted = { volumeId, nodeId: node.nodeId, stagingTargetPath, targetPath, volumeCapability: CAPABILITY };
    const published = ControllerPublishVolumeRequest.fromPartial(wanted);
    const { publishContext = {} } = await attach(controller, published, newCall());
    for (const folder of [stagingTargetPath, users]) await mkdir(folder, { recursive: true });
    const mounted = { ...wanted, publishContext };
    await stageVolume(node, NodeStageVolumeRequest.fromPartial(mounted), newCall());
    await publishVolume(node, NodePublishVolumeRequest.fromPartial(mounted), newCall());
    return stagingTargetPath;
  }

  async #unmount(volumeId: string, user: string): Promise<void> {
    const { controller, node } = this.context;
    const { stagingTargetPath, users, targetPath } = this.#pathsOf(volumeId, user);
    const given = { volumeId, nodeId: node.nodeId, stagingTargetPath, targetPath };
    await unpublishVolume(node, NodeUnpublishVolumeRequest.fromPartial(given), newCall());
    if ((await allMounts()).some(({ path }) => path.startsWith(`${users}/`))) return;
    await unstageVolume(node, NodeUnstageVolumeRequest.fromPartial(given), newCall());
    await detach(controller, ControllerUnpublishVolumeRequest.fromPartial(given), newCall());
    for (const folder of [stagingTargetPath, users, dirname(users)]) await rmdir(folder).catch(() => {});
  }

  #volume(name: string, volumeId: string, mounts: readonly MountEntry[]): DockerVolume {
    const path = this.#pathsOf(volumeId, "").stagingTargetPath;
    return { Name: name, Mountpoint: mountedAt(mounts, path) === undefined ? "" : path };
  }

  #idOf(name: string): string {
    return volumeIdOf(this.context.controller.disks.owner, name);
  }

  #pathsOf(volumeId: string, user: string) {
    const folder = join(this.context.folder, volumeId);
    const users = join(folder, "users");
    const hash = createHash("sha256").update(user).digest("hex");
    return { stagingTargetPath: join(folder, "mount"), users, targetPath: join(users, hash) };
  }
}

function newCall(): SocketCall {
  return { deadlineAtMs: Date.now() + CALL_TIMEOUT_MS, requestId: "" };
}

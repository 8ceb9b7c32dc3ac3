import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { InvalidStateError, MIB_BYTES } from "@diskmesh/domain";
import { errorOfStatus } from "@diskmesh/rpc";
import type { CsiDrivers, CsiNode } from "../mesh/csi-drivers.js";
import { DISK_TYPE, describeInstance } from "./deployment.js";
import { whyNoMounts } from "./mounted-disk.js";
import { type Scene, waitFor } from "./scene.js";
import type { Tell } from "./story.js";

const VOLUME = "demo-volume";
const VOLUME_BYTES = 64 * MIB_BYTES;
const TEXT = "written in a volume\n";
const CAPABILITY = {
  accessType: { $case: "mount" as const, value: { fsType: "ext4" } },
  accessMode: { mode: "SINGLE_NODE_WRITER" as const },
};

/**
 * Creates a volume as an orchestrator does, mounts it on one instance's host, moves it to the other one's, and deletes
 * it. Where this machine cannot mount, the volume is only attached.
 */
export async function tellOfVolume(scene: Scene, tell: Tell, { controller, nodes }: CsiDrivers): Promise<void> {
  const [one, two] = nodes;
  const whyNot = await whyNoMounts();
  const volumeId = await tell(
    "volume created",
    () => createVolume(scene, controller),
    (id) => `${VOLUME} is disk ${id}`,
  );
  const volume = new Volume(scene, controller, volumeId);
  // An earlier run may have left the volume anywhere.
  for (const node of nodes) await volume.takeFrom(node);
  try {
    if (whyNot !== undefined) {
      await tell(
        "volume attached",
        () => volume.attach(one),
        () => `to ${describeInstance(one.instance)}, and not mounted: ${whyNot}`,
      );
      return;
    }
    await tell(
      "volume mounted",
      async () => writeFile(await volume.mount(one), TEXT, { flush: true }),
      () => `for ${describeInstance(one.instance)}, and a file written`,
    );
    await tell(
      "volume moved",
      async () => {
        await volume.takeFrom(one);
        return expectText(await volume.mount(two));
      },
      (file) => `to ${describeInstance(two.instance)}: the same bytes in ${file}`,
    );
  } finally {
    for (const node of nodes) await volume.takeFrom(node);
    await volume.delete();
  }
}

async function createVolume(scene: Scene, controller: CsiDrivers["controller"]): Promise<string> {
  const { volume } = await call(scene, "CreateVolume", () =>
    controller.createVolume({
      name: VOLUME,
      parameters: { diskType: DISK_TYPE },
      capacityRange: { requiredBytes: VOLUME_BYTES, limitBytes: 0 },
      volumeCapabilities: [CAPABILITY],
    }),
  );
  return volume?.volumeId ?? "";
}

async function expectText(file: string): Promise<string> {
  const found = await readFile(file, "utf8");
  if (found !== TEXT) throw new InvalidStateError(`${file} holds ${JSON.stringify(found)}, not what was written`);
  return file;
}

/** The calls of an orchestrator for one volume. Each may be repeated. */
class Volume {
  constructor(
    private readonly scene: Scene,
    private readonly controller: CsiDrivers["controller"],
    private readonly volumeId: string,
  ) {}

  async attach({ instance }: CsiNode): Promise<Record<string, string>> {
    const request = { volumeId: this.volumeId, nodeId: instance.instanceId, volumeCapability: CAPABILITY };
    const published = () => this.controller.controllerPublishVolume(request);
    return (await call(this.scene, "ControllerPublishVolume", published)).publishContext;
  }

  /** Returns a path in the mounted volume. */
  async mount(node: CsiNode): Promise<string> {
    const { stagingTargetPath, targetPath } = pathsOn(node);
    await mkdir(stagingTargetPath, { recursive: true });
    const publishContext = await this.attach(node);
    const request = { volumeId: this.volumeId, stagingTargetPath, publishContext, volumeCapability: CAPABILITY };
    await call(this.scene, "NodeStageVolume", () => node.calls.nodeStageVolume(request));
    await call(this.scene, "NodePublishVolume", () => node.calls.nodePublishVolume({ ...request, targetPath }));
    return join(targetPath, "story");
  }

  /** Unmounts the volume on the node's host, and detaches it from the node; does nothing where it is not. */
  async takeFrom(node: CsiNode): Promise<void> {
    const { volumeId, scene } = this;
    const { stagingTargetPath, targetPath } = pathsOn(node);
    const request = { volumeId, nodeId: node.instance.instanceId };
    await call(scene, "NodeUnpublishVolume", () => node.calls.nodeUnpublishVolume({ volumeId, targetPath }));
    await call(scene, "NodeUnstageVolume", () => node.calls.nodeUnstageVolume({ volumeId, stagingTargetPath }));
    await call(scene, "ControllerUnpublishVolume", () => this.controller.controllerUnpublishVolume(request));
  }

  async delete(): Promise<void> {
    await call(this.scene, "DeleteVolume", () => this.controller.deleteVolume({ volumeId: this.volumeId }));
  }
}

function pathsOn({ folder }: CsiNode): { readonly stagingTargetPath: string; readonly targetPath: string } {
  return { stagingTargetPath: join(folder, "staged"), targetPath: join(folder, "mounted") };
}

/** Makes a call, and repeats it while a part of the mesh is away. */
function call<Answer>(scene: Scene, method: string, ask: () => Promise<Answer>): Promise<Answer> {
  return waitFor(scene, method, async () => {
    try {
      return await ask();
    } catch (error) {
      const { code, details, metadata } = error as Parameters<typeof errorOfStatus>[0];
      throw errorOfStatus({ code, details, metadata, sent: true, method, address: "the CSI driver" });
    }
  });
}

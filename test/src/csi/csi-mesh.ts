import { mkdirSync, readdirSync } from "node:fs";
import { DriverProcess, LoopDevices } from "@diskmesh/csi-driver/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { wholeFleet } from "../mesh/fleets.js";
import { addHosts, deployInstances, devicesReady } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";

export const DEVICE_BYTES = 64 * MIB_BYTES;

interface CsiMeshOptions {
  readonly hosts: number;
  readonly devicesPerHost: number;
  readonly maxVolumesPerNode?: number;
}

/**
 * A mesh with a CSI driver for each host, which also serves the controller. Loop devices over files of the test stand
 * for the disks' devices: each host has one for every disk that its agent links.
 */
export class CsiMesh implements AsyncDisposable {
  readonly drivers: DriverProcess[] = [];
  readonly devices: LoopDevices[] = [];
  nodeIds: readonly string[] = [];

  private constructor(readonly mesh: TestMesh) {}

  static async start({ hosts, devicesPerHost, maxVolumesPerNode = 0 }: CsiMeshOptions): Promise<CsiMesh> {
    const mesh = await TestMesh.start(wholeFleet({ hosts, devicesPerHost, deviceSizeBytes: DEVICE_BYTES }));
    const csi = new CsiMesh(mesh);
    try {
      await csi.#startDrivers(maxVolumesPerNode);
      return csi;
    } catch (error) {
      await csi[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #startDrivers(maxVolumesPerNode: number): Promise<void> {
    const { mesh } = this;
    await addHosts(mesh);
    await devicesReady(mesh);
    this.nodeIds = await deployInstances(mesh);
    for (const [index, instanceId] of this.nodeIds.entries()) {
      const devices = new LoopDevices();
      mesh.closeLater({ close: () => devices[Symbol.dispose]() });
      this.devices.push(devices);
      const config = {
        maxVolumesPerNode,
        controller: {
          director: { address: mesh.addresses("director") },
          tls: mesh.certificates.files("csi"),
          deployment: "work",
          azs: ["z1"],
        },
        node: { instanceId, az: "z1", dynamicDisksFolder: devices.folder },
      };
      const driver = await DriverProcess.start(config, "controller", "node");
      mesh.closeLater({ close: () => driver[Symbol.asyncDispose]() });
      this.drivers.push(driver);
      this.#follow(mesh.hostIds[index] ?? "", devices);
    }
  }

  /** Attaches and detaches the test's devices as the agent makes and removes its links. */
  #follow(hostId: string, devices: LoopDevices): void {
    const folder = this.mesh.dynamicDisk(hostId, ".");
    mkdirSync(folder, { recursive: true });
    let following: Promise<void> | undefined;
    const timer = setInterval(() => {
      following ??= this.#takeOver(folder, devices).finally(() => {
        following = undefined;
      });
    }, FOLLOW_INTERVAL_MS);
    this.mesh.closeLater({
      close: async () => {
        clearInterval(timer);
        await following;
      },
    });
  }

  async #takeOver(folder: string, devices: LoopDevices): Promise<void> {
    const linked = readdirSync(folder);
    for (const diskCid of devices.attached) if (!linked.includes(diskCid)) devices.detach(diskCid);
    if (linked.length === 0) return;
    const { disks } = await this.mesh.clients.disks.listDisks({ pageSize: 1_000 }).catch(() => ({ disks: [] }));
    for (const { diskCid, sizeBytes } of disks)
      if (!linked.includes(diskCid)) continue;
      else if (!devices.attached.includes(diskCid)) devices.attach(diskCid, sizeBytes);
      else if (devices.sizeBytes(diskCid) < sizeBytes) devices.grow(diskCid, sizeBytes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mesh[Symbol.asyncDispose]();
  }
}

const FOLLOW_INTERVAL_MS = 20;

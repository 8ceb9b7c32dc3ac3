import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Topology } from "@diskmesh/api/csi";
import { devicesWithBytes } from "@diskmesh/api/registry";
import { DriverProcess, needLoopDevices } from "@diskmesh/csi-driver/testing";
import { MIB_BYTES } from "@diskmesh/domain";
import { anotherCertificate, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { HEAD_BYTES } from "../mesh/device-files.js";
import { wholeFleet } from "../mesh/fleets.js";
import { addHosts, deployInstances, devicesReady } from "../mesh/steps.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { CAPABILITY, NodeOrder } from "./node-order.js";

export const VOLUME_BYTES = 16 * MIB_BYTES;
/** Slices of a volume, of which one is for the record beside the data. */
const SLICES_BYTES = VOLUME_BYTES + MIB_BYTES;

const CLOUD_CONFIG = `azs:
- name: z1
disk_types:
- name: default
  disk_size: 1
  cloud_properties: { export: device }
`;

interface CsiMeshOptions {
  /** Nodes are instances of a deployment by default, or hosts without any. */
  readonly nodes?: "instances" | "hosts";
  readonly hosts: number;
  readonly devicesPerHost: number;
  /** Volumes for which a device has slices; 1 by default. */
  readonly volumesPerDevice?: number;
  readonly maxVolumesPerNode?: number;
}

/** Skips the tests of a suite where agents offer disks as sockets, or this process may not mount. */
export function needBlockDevices(context: Mocha.Context): void {
  needLoopDevices(context);
  skipWithout(context, "nbdfuse");
}

/** A mesh with a CSI driver for each host, which also serves the controller. */
export class CsiMesh implements AsyncDisposable {
  readonly drivers: DriverProcess[] = [];
  /** Sockets of the drivers on which they serve Docker. */
  readonly dockerSockets: string[] = [];
  nodeIds: readonly string[] = [];
  readonly #orders: NodeOrder[] = [];
  readonly #dockerFolder = temporaryFolder();

  private constructor(
    readonly mesh: TestMesh,
    private readonly nodes: "instances" | "hosts",
  ) {}

  static async start(options: CsiMeshOptions): Promise<CsiMesh> {
    const { nodes = "instances", hosts, devicesPerHost, volumesPerDevice = 1, maxVolumesPerNode = 0 } = options;
    const deviceSizeBytes = HEAD_BYTES + volumesPerDevice * SLICES_BYTES;
    const overrides = { "disk-agent": { engine: process.env.DISKMESH_ENGINE ?? "auto" } };
    const mesh = await TestMesh.start(wholeFleet({ hosts, devicesPerHost, deviceSizeBytes, overrides }));
    const csi = new CsiMesh(mesh, nodes);
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
    const isOfHosts = this.nodes === "hosts";
    if (isOfHosts) this.nodeIds = mesh.hostIds.map((hostId) => `host/${hostId}`);
    else {
      this.nodeIds = await deployInstances(mesh);
      await mesh.clients.configs.updateConfig({ type: "cloud", content: CLOUD_CONFIG });
    }
    const tls = await anotherCertificate(mesh.certificates.folder, "csi-work", {
      identity: { role: "csi", name: "work" },
      commonName: "csi",
      usages: ["client"],
    });
    for (const [index, instanceId] of this.nodeIds.entries()) {
      const hostId = mesh.hostIds[index] ?? "";
      const config = {
        maxVolumesPerNode,
        controller: {
          director: { address: mesh.addresses("director") },
          tls,
          ...(isOfHosts ? { cluster: "work" } : { deployment: "work" }),
          azs: ["z1"],
        },
        docker: {
          socket: join(this.#dockerFolder, `${index}.sock`),
          folder: join(this.#dockerFolder, `${index}`),
        },
        node: {
          ...(isOfHosts
            ? { hostId, exportsFolder: join(mesh.baseFolder(hostId), "exports") }
            : { instanceId, dynamicDisksFolder: mesh.dynamicDisk(hostId, ".") }),
          az: "z1",
          mountFolders: [tmpdir()],
          stateFolder: join(this.#dockerFolder, `uses-${index}`),
        },
      };
      const driver = await DriverProcess.start(config, "controller", "node", "docker");
      this.dockerSockets.push(config.docker.socket);
      mesh.closeLater({ close: () => driver[Symbol.asyncDispose]() });
      this.drivers.push(driver);
    }
  }

  /** Returns the names of the disks in the director, and the nodes that have them. */
  async attachments(): Promise<Record<string, string>> {
    const { disks } = await this.mesh.clients.disks.listDynamicDisks({ pageSize: 1_000 });
    return Object.fromEntries(
      disks.map(({ diskName, instanceId, hostId }) => [diskName, hostId === "" ? instanceId : `host/${hostId}`]),
    );
  }

  /** Parameters of a storage class. */
  get parameters(): Record<string, string> {
    return this.nodes === "hosts" ? { pool: "default" } : { diskType: "default" };
  }

  /** Creates a volume of one device. Returns its ID. */
  async create(name: string, more: object = {}): Promise<string> {
    const { volume } = await this.#driver(0).clients.controller.createVolume({
      name,
      volumeCapabilities: [CAPABILITY],
      parameters: { ...this.parameters, "csi.storage.k8s.io/pvc/name": "data" },
      capacityRange: { requiredBytes: VOLUME_BYTES, limitBytes: 0 },
      ...more,
    });
    return volume?.volumeId ?? "";
  }

  /** Returns the topology of a node, as its driver answers it. */
  async topologyOf(node: number): Promise<Topology> {
    return (await this.#driver(node).clients.node.nodeGetInfo({})).accessibleTopology ?? { segments: {} };
  }

  /** Creates a volume as a provisioner does for a pod that was scheduled to the node. Returns its ID. */
  async createFor(node: number, name: string): Promise<string> {
    const own = await this.topologyOf(node);
    return this.create(name, { accessibilityRequirements: { requisite: [own], preferred: [own] } });
  }

  /** Returns the ID of the host that has the bytes of a volume. */
  async hostOf(volumeId: string): Promise<string> {
    const { disk } = await this.mesh.clients.disks.getDynamicDisk({ diskName: volumeId });
    const { disk: inRegistry } = await this.mesh.clients.registry.getDisk({ diskId: disk?.diskCid ?? "" });
    const [deviceId = ""] = inRegistry === undefined ? [] : devicesWithBytes(inRegistry);
    return (await this.mesh.device(deviceId)).hostId;
  }

  /** Waits until all devices are free and erased. */
  async ready(): Promise<void> {
    await devicesReady(this.mesh);
  }

  async remove(volumeId: string): Promise<void> {
    await this.#driver(0).clients.controller.deleteVolume({ volumeId });
  }

  orderOn(node: number, volumeId: string): NodeOrder {
    const order = new NodeOrder(this.#driver(node), this.nodeIds[node] ?? "", volumeId);
    this.#orders.push(order);
    return order;
  }

  #driver(node: number): DriverProcess {
    const driver = this.drivers[node];
    if (driver === undefined) throw new Error(`there is no node ${node}`);
    return driver;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const folders = [...this.#orders.map(({ folder }) => folder), this.#dockerFolder];
    const paths = readFileSync("/proc/self/mounts", "utf8")
      .split("\n")
      .map((line) => line.split(" ")[1] ?? "");
    for (const path of paths)
      if (folders.some((folder) => path.startsWith(`${folder}/`))) spawnSync("umount", ["--lazy", path]);
    await this.mesh[Symbol.asyncDispose]();
  }
}

import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { type Disk, Health } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import { Drive, eventually } from "@diskmesh/testkit";
import { HEAD_BYTES, makeDeviceFile } from "../mesh/device-files.js";
import { registryFleet } from "../mesh/fleets.js";
import { addHosts, devicesReady, retrying } from "../mesh/steps.js";
import { openStore } from "../mesh/stores.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { FioUser } from "./fio-user.js";

const SLICES_BYTES = 4 * MIB_BYTES;
const DEVICE_BYTES = HEAD_BYTES + SLICES_BYTES;
/** Size of a part that takes all slices of a device. */
const PART_BYTES = SLICES_BYTES - HEAD_BYTES;
/** Rate of a host's copies, so that a copy lasts for half a second. */
const COPY_BYTES_PER_SECOND = 16 * MIB_BYTES;
const PATIENCE = { timeoutMs: 180_000, everyMs: 50 };
/** Time in ms after which a move gives up a silent target. */
const TARGET_TIMEOUT_MS = 2_000;
const DISK = "moved";
export const HOLDER = "host-1";

export interface MovedDiskOptions {
  /** Devices of the disk. */
  readonly parts: number;
  /** Numbers of devices of the hosts; the first one is the holder. */
  readonly devices: readonly number[];
  /** True for devices that can be made to fail. */
  readonly canFail?: boolean;
}

/** A disk that fio uses while it moves between the devices of a mesh. */
export class MovedDisk implements AsyncDisposable {
  /** Devices that can be made to fail, by ID. */
  readonly drives = new Map<string, Drive>();
  readonly #paths = new Map<string, string>();
  readonly #closing: (() => Promise<void>)[] = [];
  /** Last known target of a move. */
  target: string | undefined;
  mesh!: TestMesh;
  user!: FioUser;

  private constructor(readonly options: MovedDiskOptions) {}

  static async start(options: MovedDiskOptions): Promise<MovedDisk> {
    const moved = new MovedDisk(options);
    try {
      await moved.#start();
      return moved;
    } catch (error) {
      await moved[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #start(): Promise<void> {
    const { devices, parts, canFail } = this.options;
    const shared = await openStore("mongodb");
    // Without a database there is no standby.
    const store = typeof shared === "string" ? await openStore("embedded") : shared;
    if (typeof store === "string") throw new Error(store);
    this.#closing.push(() => store.remove());
    const hostIds = devices.map((_, index) => `host-${index + 1}`);
    this.mesh = await TestMesh.start({
      ...registryFleet({
        hostIds,
        agent: (hostId, folder) => ({ devices: this.#devicesOf(hostId, folder), tuning: TUNING }),
        registries: store.registries,
        registry: { moves: { bytesPerSecondOfHost: COPY_BYTES_PER_SECOND } },
        tablet: store.tablet,
        deadlineMs: 30_000,
      }),
      prepare: async ({ folder }) => {
        if (canFail)
          for (const id of hostIds.flatMap((hostId, index) => idsOf(hostId, devices[index] ?? 0)))
            this.drives.set(id, await Drive.open(join(folder, "drives", id), DEVICE_BYTES));
        return undefined;
      },
    });
    const { registry } = this.mesh.clients;
    // Nothing identifies a drive of FUSE.
    if (canFail) for (const [deviceId] of this.drives) await this.#accept(deviceId);
    else await addHosts(this.mesh);
    await devicesReady(this.mesh);
    const sizeBytes = parts * PART_BYTES;
    await retrying("CreateDisk", () => registry.createDisk({ diskId: DISK, sizeBytes, az: "z1" }));
    this.user = new FioUser({ folder: this.mesh.folder, sizeBytes, path: () => this.#path() });
  }

  async #accept(deviceId: string): Promise<void> {
    const request = { hostId: this.hostOf(deviceId), deviceId, acceptUnidentified: true };
    await eventually(() => this.mesh.clients.registry.addDevice(request), PATIENCE);
  }

  #devicesOf(hostId: string, folder: string): object[] {
    const count = this.options.devices[Number(hostId.slice("host-".length)) - 1] ?? 0;
    return idsOf(hostId, count).map((deviceId) => {
      const path = this.drives.get(deviceId)?.path ?? makeDeviceFile(join(folder, "files", deviceId), DEVICE_BYTES);
      this.#paths.set(deviceId, path);
      return { deviceId, path };
    });
  }

  async #path(): Promise<string> {
    const { disk } = await this.mesh.clients.registry.publishDisk({ diskId: DISK, hostId: HOLDER });
    return disk?.publication?.exportPath ?? "";
  }

  async get(): Promise<Disk> {
    const { disk } = await retrying("GetDisk", () => this.mesh.clients.registry.getDisk({ diskId: DISK }));
    if (disk === undefined) throw new Error("the answer has no disk");
    return disk;
  }

  /** Returns the devices that have the bytes of the disk. */
  async devices(): Promise<string[]> {
    const { parts } = await this.get();
    return parts.flatMap(({ copies }) =>
      copies.flatMap((copy) => (copy.state === "COPY_STATE_COUNTS" ? copy.deviceId : [])),
    );
  }

  hostOf(deviceId: string): string {
    return deviceId.split("-device-")[0] ?? "";
  }

  async leave(deviceId: string): Promise<void> {
    const request = { diskId: DISK, deviceId };
    this.target = undefined;
    await retrying("ReplaceDevice", () => this.mesh.clients.registry.replaceDevice(request));
  }

  /** Waits until the disk has left the device and its moves have ended. */
  async hasLeft(deviceId: string): Promise<void> {
    await eventually(async () => {
      const { parts } = await this.get();
      const copying = parts.flatMap(({ copies }) => copies).find(({ state }) => state === "COPY_STATE_COPYING");
      this.target = copying?.deviceId ?? this.target;
      const state = parts.map(({ copies, move }) => [
        ...copies.map((copy) => `${copy.deviceId} ${copy.state}`),
        move?.message,
      ]);
      if (parts.some(({ copies, move }) => copies.length > 1 || move !== undefined || copies[0]?.deviceId === deviceId))
        throw new Error(`the move from ${deviceId} does not end: ${JSON.stringify(state)}`);
    }, PATIENCE);
  }

  /** Writes other bytes to a device that the disk has left, once it is erased. */
  async fill(deviceId: string): Promise<void> {
    await eventually(() => this.#isErased(deviceId), PATIENCE);
    const file = openSync(this.#paths.get(deviceId) ?? "", "r+");
    writeSync(file, Buffer.alloc(DEVICE_BYTES, 0xee), 0, DEVICE_BYTES, 0);
    closeSync(file);
  }

  async #isErased(deviceId: string): Promise<void> {
    const { diskId, dirty, attachState } = await this.mesh.device(deviceId);
    if (diskId !== "" || dirty || attachState !== "ATTACH_STATE_ATTACHED")
      throw new Error(`device ${deviceId} is not freed: disk ${diskId}, dirty ${dirty}, ${attachState}`);
  }

  /** Ends the hardware errors of all devices, as an operator does once drives are mended. */
  async mendAll(): Promise<void> {
    for (const drive of this.drives.values()) {
      drive.resume();
      drive.mend();
    }
    const deviceIds = [...this.#paths.keys()];
    await retrying("SetDeviceState", () =>
      this.mesh.clients.registry.setDeviceState({ deviceIds, health: Health.ONLINE }),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.user?.end().catch(() => undefined);
    for (const drive of this.drives.values()) {
      drive.resume();
      drive.mend();
    }
    await this.mesh?.[Symbol.asyncDispose]();
    for (const drive of this.drives.values()) await drive.close();
    for (const close of this.#closing) await close();
  }
}

const TUNING = { mirrorTargetTimeoutMs: TARGET_TIMEOUT_MS };

function idsOf(hostId: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${hostId}-device-${index + 1}`);
}

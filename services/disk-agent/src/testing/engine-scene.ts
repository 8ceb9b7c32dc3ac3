import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { silentLogger } from "@diskmesh/domain";
import { systemClock } from "@diskmesh/service";
import { BlockDevices } from "../block-device/block-devices.js";
import type { Engine, EngineName } from "../exports/engine.js";
import { ExportTable } from "../exports/export-table.js";
import { NodeEngine } from "../exports/node-engine.js";
import type { AgentMemory, ExportSpec } from "../model/memory.js";
import { NbdClient } from "../nbd/client.js";
import { IoCounters } from "../nbd/io-counters.js";
import { NbdServer } from "../nbd/server.js";
import { QemuEngine } from "../qemu/qemu-engine.js";
import { DeviceFixture, makeDeviceFile, runOf } from "./device-fixture.js";

export const DEVICE_BYTES = 1024 * 1024;
/** Limits of an engine. */
export const ENGINE_LIMITS = {
  maxConnections: 16,
  maxInFlightRequests: 64,
  maxInFlightBytes: 64 * DEVICE_BYTES,
  negotiationTimeoutMs: 5_000,
  drainTimeoutMs: 5_000,
  ioTimeoutMs: 5_000,
  mirror: {
    copy: { chunkBytes: 65_536, maxInFlight: 4, flushEveryBytes: 256 * 1024 },
    targetTimeoutMs: 2_000,
    heldTimeoutMs: 2_000,
  },
};
/** Start of the second device of a file. */
const SECOND_OFFSET_BYTES = DEVICE_BYTES;

/**
 * Device code and one engine, without an agent process. Devices a and b have files of their own; c and d lie on one
 * file.
 */
export class EngineScene {
  readonly fixture: DeviceFixture;
  readonly exports: ExportTable;
  readonly io = new IoCounters();
  readonly #clients: NbdClient[] = [];

  constructor(
    readonly engine: EngineName,
    former?: { readonly folder: string; readonly memory?: AgentMemory },
    /** Without it, disks of the engine qemu are block devices. */
    options: { readonly whyNoBlockDevices?: string; readonly lastEngine?: EngineName } = {
      whyNoBlockDevices: "the test uses sockets",
    },
  ) {
    const at = (id: string, file: string, offsetBytes = 0) => ({ id, file, offsetBytes, sizeBytes: DEVICE_BYTES });
    const devices = [at("a", "a"), at("b", "b"), at("c", "shared"), at("d", "shared", SECOND_OFFSET_BYTES)];
    this.fixture = new DeviceFixture(devices, 4096, {}, former);
    const { folder } = this.fixture;
    if (former === undefined) {
      for (const name of ["a", "b"]) makeDeviceFile(folder, name, DEVICE_BYTES);
      makeDeviceFile(folder, "shared", 2 * DEVICE_BYTES);
    }
    mkdirSync(this.#exportsFolder, { recursive: true, mode: 0o700 });
    const { ledger, devices: table } = this.fixture;
    const common = { ledger, devices: table, clock: systemClock, log: silentLogger };
    const host = { hostId: "host-1" as HostId, folder: this.#exportsFolder, clock: systemClock, log: silentLogger };
    const blockDevices = new BlockDevices({ ...host, whyNot: options.whyNoBlockDevices, io: this.io });
    const engines = [engine, ...(options.lastEngine ? [options.lastEngine] : [])].map((name) => this.#makeEngine(name));
    this.exports = new ExportTable({ ...common, engines, blockDevices, maxEndedExports: 10 });
  }

  get #exportsFolder(): string {
    return join(this.fixture.folder, "exports");
  }

  #makeEngine(name: EngineName): Engine {
    const { devices } = this.fixture;
    const common = {
      hostId: "host-1" as HostId,
      folder: this.#exportsFolder,
      devices,
      openRemotePart: () => {
        throw new Error("all devices are local");
      },
      limits: ENGINE_LIMITS,
      clock: systemClock,
      log: silentLogger,
    };
    const linkDevice = () => Promise.reject(new Error("all devices are local"));
    if (name === "qemu") return new QemuEngine({ ...common, linkDevice, remoteIoTimeoutMs: 5_000, io: this.io });
    return new NodeEngine({ ...common, listenNbd: (options) => NbdServer.listen(options, this.io) });
  }

  /** Attaches all devices and starts the exports that the memory has. */
  async start(): Promise<void> {
    await this.exports.adopt();
    await this.fixture.devices.start({ waitMs: 5_000 });
    await this.exports.start();
  }

  /** Opens a session on the devices and serves the disk in it. */
  async publish(diskId: string, sessionNumber: number, ids: readonly string[]): Promise<string> {
    await this.open(diskId, sessionNumber, ids);
    return this.exports.serve(specOf(diskId, sessionNumber, ids));
  }

  /** Opens a session on the devices, and resolves once every one of them has granted it. */
  async open(diskId: string, number: number, ids: readonly string[]): Promise<void> {
    const stamp = { tabletId: "tablet-1", incarnation: "incarnation-1", tabletGeneration: 1, deviceGeneration: 0 };
    const wish = { number, purpose: "disk" as const, diskId, holderHostId: "host-1" };
    const came = await this.fixture.sessions.open(
      ids.map((id) => runOf(id)),
      wish,
      stamp,
      { waitMs: 10_000 },
    );
    const refused = came.filter(({ outcome }) => outcome !== "done" && outcome !== "already");
    if (refused.length > 0) throw new Error(refused.map(({ outcome, message }) => `${outcome}: ${message}`).join("; "));
  }

  async connect(socketPath: string): Promise<NbdClient> {
    const client = await NbdClient.connect({ socketPath });
    this.#clients.push(client);
    return client;
  }

  bytesOf(file: string): Buffer {
    return readFileSync(join(this.fixture.folder, file));
  }

  /** Stops the agent's part. Daemons go on. */
  async leave(): Promise<{ folder: string; memory: AgentMemory }> {
    await this.exports.close();
    await this.fixture.stop();
    return { folder: this.fixture.folder, memory: this.fixture.ledger.memory };
  }

  /** Ends everything. */
  async stop(): Promise<void> {
    for (const { diskId, sessionNumber } of this.exports.list()) await this.exports.end(diskId, sessionNumber);
    await this.leave();
    for (const client of this.#clients) await client.disconnect().catch(() => undefined);
  }
}

export function specOf(diskId: string, sessionNumber: number, ids: readonly string[]): ExportSpec {
  const extents = ids.map((id) => ({
    deviceId: id as DeviceId,
    hostId: "host-1" as HostId,
    sizeBytes: DEVICE_BYTES,
    blockAddress: "",
    sessionKey: "",
  }));
  return { diskId: diskId as DiskId, sessionNumber, blockSizeBytes: 4096, extents };
}

export function noise(sizeBytes: number): Buffer {
  return randomBytes(sizeBytes);
}

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, readlinkSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { silentLogger } from "@diskmesh/domain";
import { deviceNumber } from "@diskmesh/file-lock";
import { systemClock } from "@diskmesh/service";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import type { AgentConfig } from "../base/config.js";
import { IoCounters } from "../base/io-counters.js";
import { AGENT_LIMITS } from "../base/limits.js";
import { BlockDevices } from "../engines/block-devices.js";
import type { Engine, EngineName } from "../engines/engine.js";
import { KernelEngine } from "../engines/kernel-engine.js";
import { NodeEngine } from "../engines/node-engine.js";
import { ExportTable } from "../exports/export-table.js";
import { machineBootId } from "../host/machine-boot-id.js";
import { DeviceMapper, type Dmsetup } from "../kernel/device-mapper.js";
import { type Nvme, nvmeOf } from "../kernel/nvme.js";
import { type AgentMemory, type ExportSpec, emptyMemory } from "../model/memory.js";
import { NbdClient } from "../nbd/client.js";
import { NbdServer } from "../nbd/server.js";
import { DeviceAccess } from "../remote/device-access.js";
import { linkOverNbd } from "../remote/device-link.js";
import { DeviceListener } from "../remote/device-listener.js";
import { NvmeParts } from "../remote/nvme-parts.js";
import { openAnyPart } from "../wiring.js";
import { tidyWireGuard } from "../workers/wireguard-check.js";
import { BlockClient } from "./block-client.js";
import { DeviceFixture, LEADER, makeDeviceFile, runOf } from "./device-fixture.js";
import { holdersOf } from "./file-holders.js";

export const DEVICE_BYTES = 1024 * 1024;
const IO_TIMEOUT_MS = 5_000;
/** Limits of an engine. */
const ENGINE_LIMITS = {
  maxConnections: 16,
  maxInFlightRequests: 64,
  maxInFlightBytes: 64 * DEVICE_BYTES,
  negotiationTimeoutMs: 5_000,
  drainTimeoutMs: 5_000,
  mirror: {
    copy: { chunkBytes: 65_536, maxInFlight: 4, flushEveryBytes: 256 * 1024 },
    targetTimeoutMs: 2_000,
    heldTimeoutMs: 2_000,
  },
  moves: { windowBytes: 256 * 1024, targetTimeoutMs: 5_000, heldRequestMs: 1_000 },
};

export type DiskClient = Pick<
  NbdClient,
  "sizeBytes" | "read" | "write" | "flush" | "writeZeroes" | "trim" | "disconnect"
>;

const HOST = "host-1" as HostId;
const NO_NVME = { hostId: HOST, nvmeListen: { host: "127.0.0.1", port: 1 }, remoteIoTimeoutMs: 1_000 };

/** Host of a session's disk that is not the devices' host, and the key that it proves. */
export interface RemoteHolder {
  readonly holderHostId: HostId;
  readonly sessionKey: string;
}

/**
 * Device code and one engine, without an agent process. Devices a and b have files of their own; c and d lie on one
 * file.
 */
export class EngineScene {
  readonly fixture: DeviceFixture;
  readonly exports: ExportTable;
  readonly io = new IoCounters();
  /** Present with the engine kernel. */
  readonly mapper: DeviceMapper | undefined;
  /** True when the device files are drives, below which files lie. */
  readonly #hasDrives: boolean;
  readonly #clients: Pick<DiskClient, "disconnect">[] = [];
  readonly hostId: HostId;
  readonly #nvme: Nvme | undefined;
  readonly #form: Pick<ExportSpec, "exportKind">;
  #listener: DeviceListener | undefined;

  constructor(
    readonly engine: EngineName,
    former?: { readonly folder: string; readonly memory?: AgentMemory },
    options: {
      readonly whyNoBlockDevices?: string;
      /** Engine of the disks that `engine` cannot carry. */
      readonly lastEngine?: EngineName;
      /** Form of the disks that `publish` serves. */
      readonly exportKind?: ExportSpec["exportKind"];
      readonly deviceBytes?: number;
      /** True where the engine kernel gets regular files instead of drives. */
      readonly hasRegularFiles?: boolean;
      readonly dmsetup?: Dmsetup;
      /** Reason why the kernel moves no disk in use. */
      readonly whyNoMirror?: string;
      /** Another host than `host-1`, and its NVMe/TCP. */
      readonly hostId?: HostId;
      readonly nvme?: Nvme;
    } = {
      whyNoBlockDevices: "the test uses sockets",
    },
  ) {
    const { deviceBytes: sizeBytes = DEVICE_BYTES } = options;
    const at = (id: string, file: string, offsetBytes = 0) => ({ id, file, offsetBytes, sizeBytes });
    const devices = [at("a", "a"), at("b", "b"), at("c", "shared"), at("d", "shared", sizeBytes)];
    const folder = former?.folder ?? temporaryFolder();
    this.mapper = engine === "kernel" ? new DeviceMapper(folder, options.dmsetup, options.whyNoMirror) : undefined;
    this.#hasDrives = this.mapper !== undefined && !options.hasRegularFiles;
    this.hostId = options.hostId ?? HOST;
    this.#nvme = options.nvme;
    this.#form = options.exportKind === undefined ? {} : { exportKind: options.exportKind };
    const memory = former?.memory ?? { ...emptyMemory(this.hostId), ...LEADER };
    this.fixture = new DeviceFixture(devices, 4096, {}, { folder, memory }, this.mapper, options.nvme?.target);
    if (former === undefined)
      for (const [name, count] of Object.entries({ a: 1, b: 1, shared: 2 })) this.#makeFile(name, count * sizeBytes);
    mkdirSync(this.#exportsFolder, { recursive: true, mode: 0o700 });
    const { ledger, devices: table } = this.fixture;
    const common = { ledger, devices: table, clock: systemClock, log: silentLogger };
    const host = { hostId: this.hostId, folder: this.#exportsFolder, clock: systemClock, log: silentLogger };
    const blockDevices = new BlockDevices({ ...host, whyNot: options.whyNoBlockDevices });
    const engines = [engine, ...(options.lastEngine ? [options.lastEngine] : [])].map((name) => this.#makeEngine(name));
    this.exports = new ExportTable({ ...common, engines, blockDevices, maxEndedExports: 10 });
  }

  /** Makes a device file; for the engine kernel a drive, so that nothing depends on the file system below. */
  #makeFile(name: string, sizeBytes: number): void {
    const { folder } = this.fixture;
    const file = makeDeviceFile(folder, this.#hasDrives ? imageOf(name) : name, sizeBytes);
    if (!this.#hasDrives) return;
    const drive = execFileSync("losetup", ["--find", "--show", file], { encoding: "utf8" }).trim();
    symlinkSync(drive, join(folder, name));
  }

  get #exportsFolder(): string {
    return join(this.fixture.folder, "exports");
  }

  #makeEngine(name: EngineName): Engine {
    const { devices, ledger } = this.fixture;
    const log = silentLogger;
    const config = { hostId: this.hostId, remoteIoTimeoutMs: IO_TIMEOUT_MS } as AgentConfig;
    const edges = { clock: systemClock, random: Math.random, linkDevice: linkOverNbd };
    const common = {
      hostId: this.hostId,
      folder: this.#exportsFolder,
      devices,
      openPart: openAnyPart({ config, limits: AGENT_LIMITS, devices, ledger, log }, edges),
      limits: ENGINE_LIMITS,
      clock: systemClock,
      log: silentLogger,
    };
    if (this.mapper !== undefined && name === "kernel") {
      const { nvme = { host: nvmeOf(NO_NVME, log).host, whyNot: "the test has one host" } } = { nvme: this.#nvme };
      const remote = new NvmeParts({ nvme, ledger, log });
      return new KernelEngine({ ...common, mapper: this.mapper, remote, moves: ENGINE_LIMITS.moves, io: this.io });
    }
    return new NodeEngine({ ...common, listenNbd: (options) => NbdServer.listen(options, this.io) });
  }

  /** Attaches all devices and starts the exports that the memory has. */
  async start(): Promise<void> {
    await this.fixture.devices.findLegs();
    await this.exports.adopt();
    await this.fixture.devices.start({ waitMs: 60_000 });
    for (const { failure } of this.fixture.devices.all()) if (failure !== undefined) throw new Error(failure.message);
    await this.exports.start(10_000);
  }

  /** Serves the devices to holders on other hosts, and returns the port. */
  async listen(port = 0, host = "127.0.0.1"): Promise<number> {
    const { devices, ledger } = this.fixture;
    const takeOverTimeoutMs = IO_TIMEOUT_MS;
    const { negotiationTimeoutMs } = ENGINE_LIMITS;
    const id = await machineBootId();
    const access = new DeviceAccess({ devices, ledger, machineBootId: id, takeOverTimeoutMs, nvme: this.#nvme });
    const limits = { maxInFlightRequests: 64, maxInFlightBytes: 64 * DEVICE_BYTES, negotiationTimeoutMs };
    const log = silentLogger;
    const listener = { access, host, port, limits, clock: systemClock, log };
    this.#listener = await DeviceListener.start(listener);
    this.#listener.requireListening();
    return this.#listener.port;
  }

  /** Does what the agent does from time to time. */
  async tidyWireGuard(): Promise<void> {
    if (this.#nvme !== undefined) await tidyWireGuard(this.#nvme, this.fixture.ledger.memory);
  }

  /** Opens a session on the devices and serves the disk in it. */
  async publish(
    diskId: string,
    sessionNumber: number,
    ids: readonly string[],
    sizeBytes = DEVICE_BYTES,
  ): Promise<string> {
    await this.open(diskId, sessionNumber, ids);
    return this.exports.serve({ ...specOf(diskId, sessionNumber, ids, sizeBytes), ...this.#form });
  }

  /** Opens a session on the devices, and resolves once every one of them has granted it. */
  async open(diskId: string, number: number, ids: readonly string[], holder?: RemoteHolder): Promise<void> {
    const stamp = { tabletId: "tablet-1", incarnation: "incarnation-1", tabletGeneration: 1, deviceGeneration: 0 };
    const wish = { number, purpose: "disk" as const, diskId, ...(holder ?? { holderHostId: this.hostId }) };
    const came = await this.fixture.sessions.open(
      ids.map((id) => runOf(id)),
      wish,
      stamp,
      { waitMs: 10_000 },
    );
    const refused = came.filter(({ outcome }) => outcome !== "done" && outcome !== "already");
    if (refused.length > 0) throw new Error(refused.map(({ outcome, message }) => `${outcome}: ${message}`).join("; "));
  }

  /** Opens a disk of any engine. */
  async use(path: string): Promise<DiskClient> {
    if (this.engine !== "kernel") return this.connect(path);
    const client = await BlockClient.open(path);
    this.#clients.push(client);
    return client;
  }

  async connect(socketPath: string): Promise<NbdClient> {
    const client = await NbdClient.connect({ socketPath });
    this.#clients.push(client);
    return client;
  }

  /** Repeats the order while it is pending, as a registry does. */
  async detach(id: string, generation: number): Promise<string> {
    for (;;) {
      const outcome = await this.fixture.order("detach", id, generation);
      if (outcome !== "pending") return outcome === "already" ? "done" : outcome;
    }
  }

  /**
   * Returns what has the file of a detached device: ids of processes, or devices of the kernel. A disk's own device stays
   * with its user, and has nothing of the file.
   */
  async holdersOf(file: string): Promise<readonly unknown[]> {
    const path = join(this.fixture.folder, file);
    const drive = deviceNumber(statSync(path, { bigint: true }).rdev);
    const found = ((await this.mapper?.list()) ?? []).filter(
      ({ role }) => role.kind === "leg" || (role.kind === "guard" && role.drive === drive),
    );
    return [...found, ...holdersOf(path)];
  }

  bytesOf(file: string): Buffer {
    return readFileSync(join(this.fixture.folder, this.#hasDrives ? imageOf(file) : file));
  }

  /** Stops the agent's part. What the kernel carries goes on. */
  async leave(): Promise<{ folder: string; memory: AgentMemory }> {
    await this.exports.close();
    await this.#listener?.close();
    await this.fixture.stop();
    return { folder: this.fixture.folder, memory: this.fixture.ledger.memory };
  }

  /** Ends everything. */
  async stop(): Promise<void> {
    for (const { diskId, sessionNumber } of this.exports.list()) await this.exports.end(diskId, sessionNumber);
    await this.leave();
    for (const client of this.#clients) await client.disconnect().catch(() => undefined);
    if (this.mapper === undefined) return;
    // The kernel removes a device a little after its last user has closed it.
    await eventually(async () =>
      expect(await this.mapper?.endAll(() => this.#nvme?.target.endAll() ?? Promise.resolve())).to.deep.equal([]),
    );
    if (!this.#hasDrives) return;
    for (const name of ["a", "b", "shared"])
      execFileSync("losetup", ["--detach", readlinkSync(join(this.fixture.folder, name))]);
  }
}

/** File below a drive. */
function imageOf(name: string): string {
  return `${name}.img`;
}

export function specOf(
  diskId: string,
  sessionNumber: number,
  ids: readonly string[],
  sizeBytes = DEVICE_BYTES,
): ExportSpec {
  const extents = ids.map((id) => ({
    deviceId: id as DeviceId,
    hostId: "host-1" as HostId,
    sizeBytes,
    blockAddress: "",
    sessionKey: "",
  }));
  return { diskId: diskId as DiskId, sessionNumber, blockSizeBytes: 4096, extents };
}

export function noise(sizeBytes: number): Buffer {
  return randomBytes(sizeBytes);
}

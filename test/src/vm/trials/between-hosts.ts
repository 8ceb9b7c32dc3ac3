import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  DEVICE_BYTES,
  EngineScene,
  innerAddressOf,
  type Nvme,
  nvmeOf,
  specOf,
  type Verbs,
  type WireGuard,
} from "@diskmesh/disk-agent/testing";
import { type DiskId, type HostId, silentLogger } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { BLOCK_BYTES, readDirect } from "./checked-writer.js";
import type { Devices } from "./device-mapper.js";
import { makeDrives, unwind } from "./engine-drives.js";

export const DISK = "disk-1" as DiskId;
/** Host whose programs use the disk, and the host of its devices. */
export const HOLDER = "host-1" as HostId;
export const STORAGE = "host-2" as HostId;
export const KEY = "5a".repeat(32);
export const portOf = (hostId: HostId): number => (hostId === HOLDER ? 4421 : 4420);
const FAIL_AFTER_MS = 3_000;

interface HostOptions {
  /** Reason why the host has no parts of other hosts, and serves none. */
  readonly whyNot?: string | undefined;
  readonly verbs?: Verbs;
  readonly bootId?: () => Promise<string>;
  /** Address of a host that has a machine of its own. */
  readonly address?: string | undefined;
  /** WireGuard of a host that does not call its storage network trusted. */
  readonly wireguard?: WireGuard;
}

/** NVMe/TCP of a host. */
function nvmeFor(
  hostId: HostId,
  { whyNot, wireguard, address: own = "127.0.0.1", ...options }: HostOptions = {},
): Nvme {
  const host = wireguard === undefined ? own : innerAddressOf(hostId);
  const address = { host, port: portOf(hostId) };
  const sides = nvmeOf({ hostId, nvmeListen: address, remoteIoTimeoutMs: FAIL_AFTER_MS }, silentLogger, options);
  return { ...sides, address, whyNot, wireguard };
}

type Former = ConstructorParameters<typeof EngineScene>[1];

export function sceneOf(hostId: HostId, former: Former, options?: HostOptions): EngineScene {
  const nvme = nvmeFor(hostId, options);
  return new EngineScene("kernel", former, {
    whyNoBlockDevices: "the test uses sockets",
    lastEngine: "node",
    hostId,
    nvme,
  });
}

/** Two agents on one kernel, which reach each other over its loopback. */
export class TwoHosts {
  holder!: EngineScene;
  storage!: EngineScene;
  readonly #clients: { disconnect(): Promise<void> }[] = [];
  /** Port at which the storage host's agent listens. */
  port = 0;

  /** Starts both hosts on new drives. `devices` ends them. */
  static async start(
    devices: Devices,
    options: { readonly holder?: HostOptions; readonly storage?: HostOptions } = {},
  ): Promise<TwoHosts> {
    const hosts = new TwoHosts();
    hosts.storage = sceneOf(STORAGE, { folder: (await makeDrives(devices)).folder }, options.storage);
    hosts.holder = sceneOf(HOLDER, { folder: (await makeDrives(devices)).folder }, options.holder);
    devices.later(async () => {
      for (const client of hosts.#clients) await client.disconnect().catch(() => undefined);
      for (const { diskId, sessionNumber } of hosts.holder.exports.list())
        await hosts.holder.exports.end(diskId, sessionNumber);
      await unwind(hosts.holder);
      await hosts.storage.leave();
      await endStorage(hosts.storage);
    });
    await hosts.storage.start();
    await hosts.holder.start();
    hosts.port = await hosts.storage.listen();
    return hosts;
  }

  /** Begins the next life of a host's agent. */
  async restart(hostId: HostId, options?: HostOptions): Promise<void> {
    if (hostId === HOLDER) {
      this.holder = sceneOf(HOLDER, await this.holder.leave(), options);
      await this.holder.start();
      return;
    }
    this.storage = sceneOf(STORAGE, await this.storage.leave(), options);
    await this.storage.start();
    await this.storage.listen(this.port);
  }

  /** Opens a disk of the holder. */
  async use(path: string): ReturnType<EngineScene["use"]> {
    const client = await this.holder.use(path);
    this.#clients.push(client);
    return client;
  }

  /** Returns the bytes of a device of the storage host. */
  async bytesOf(id: "a" | "b" | "c" | "d"): Promise<Buffer> {
    const { folder } = this.storage.fixture;
    const blocks = DEVICE_BYTES / BLOCK_BYTES;
    if (id === "a" || id === "b") return readDirect(join(folder, id), blocks);
    const shared = await readDirect(join(folder, "shared"), 2 * blocks);
    return id === "c" ? shared.subarray(0, DEVICE_BYTES) : shared.subarray(DEVICE_BYTES);
  }

  /** Opens a session for the holder on these devices of the storage host. */
  open(sessionNumber: number, ids: readonly string[]): Promise<void> {
    return this.storage.open(DISK, sessionNumber, ids, { holderHostId: HOLDER, sessionKey: KEY });
  }

  /** Publishes a disk on devices of the storage host, and of the holder itself. Returns the path. */
  async publish(sessionNumber: number, there: readonly string[], here: readonly string[] = []): Promise<string> {
    await this.open(sessionNumber, there);
    if (here.length > 0) await this.holder.open(DISK, sessionNumber, here);
    return this.holder.exports.serve(specBetween(this.port, sessionNumber, there, here));
  }
}

/** Returns a disk on devices of the storage host, then on devices of the holder. */
export function specBetween(
  port: number,
  sessionNumber: number,
  there: readonly string[],
  here: readonly string[] = [],
  sizeBytes = DEVICE_BYTES,
  address = "127.0.0.1",
): ReturnType<typeof specOf> {
  const spec = specOf(DISK, sessionNumber, [...there, ...here], sizeBytes);
  const reach = { hostId: STORAGE, blockAddress: `${address}:${port}`, sessionKey: KEY };
  const extents = spec.extents.map((extent, at) => (at < there.length ? { ...extent, ...reach } : extent));
  return { ...spec, extents };
}

/** Returns a disk on devices of the host that uses it. */
export function specHere(hostId: HostId, sessionNumber: number, ids: readonly string[]): ReturnType<typeof specOf> {
  const spec = specOf(DISK, sessionNumber, ids);
  return { ...spec, extents: spec.extents.map((extent) => ({ ...extent, hostId })) };
}

/** Ends what a storage host has left in the kernel. */
export async function endStorage(storage: EngineScene): Promise<void> {
  const { target } = nvmeFor(STORAGE);
  await eventually(async () => expect(await storage.mapper?.endAll(() => target.endAll())).to.deep.equal([]));
}

/** Returns the NQNs of this kernel's subsystems, and of its connections. */
export function nqns(): { readonly served: readonly string[]; readonly connected: readonly string[] } {
  const controllers = readdirSync("/sys/class/nvme").filter((name) => name.startsWith("nvme"));
  const names = controllers.map((name) => readFileSync(`/sys/class/nvme/${name}/subsysnqn`, "utf8").trim());
  return {
    served: readdirSync("/sys/kernel/config/nvmet/subsystems").filter((name) => name.includes("diskmesh")),
    connected: names.filter((name) => name.includes("diskmesh")),
  };
}

/**
 * Expects errors of I/O whose leg or connection has ended. Node has no name for ENOLINK, that of a connection. The engine node
 * answers ESHUTDOWN after a fence.
 */
export function expectCut(errors: Iterable<string>): void {
  const all = new Set(errors);
  expect(all).to.not.be.empty;
  for (const each of all) expect(each).to.match(/^(EIO|ESHUTDOWN|Unknown system error -67)/);
}

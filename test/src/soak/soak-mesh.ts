import { join } from "node:path";
import type { DiskAgentServiceDefinition } from "@diskmesh/api/agent";
import type { Device } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import type { Client } from "@diskmesh/rpc";
import { eventually, type NatsServer, type ServiceProcess, type SmallDisk } from "@diskmesh/testkit";
import { openStore, type Store, type StoreName } from "../kill-test/stores.js";
import { fillRange, makeDeviceFile } from "../mesh/device-files.js";
import { ServiceGroup, type ServicePlan } from "../mesh/service-group.js";
import { isIsolated } from "../namespaces/isolation.js";
import { agentClients, operatorClients } from "./clients.js";
import { Clocks } from "./clocks.js";
import { Drive } from "./drive.js";
import type { Measures } from "./measures.js";
import { directorLimits, registryLimits } from "./service-limits.js";
import { mountSmallDisk, smallDiskProblem } from "./small-disk.js";
import { SoakNetwork } from "./soak-network.js";
import { type OwnExit, Supervised } from "./supervised.js";

/** Where VMs and disks are. */
export const WORK_AZ = "z1";
const WORK_HOSTS = ["work-1", "work-2", "work-3"] as const;
/** Whose devices infrastructure automation adds and removes; no disk is ever made of these. */
const CMS_HOSTS = ["cms-1", "cms-2"] as const;
const CMS_AZ = "cms";
/** The last of their devices are on a drive that fails and hangs. */
const HOSTS_WITH_DRIVES: readonly string[] = ["work-1", "work-2"];
const DEVICES_PER_WORK_HOST = 6;
const DEVICES_PER_DRIVE = 3;
const DEVICES_PER_CMS_HOST = 4;
export const DEVICE_BYTES = MIB_BYTES;
const CMS_DEVICE_BYTES = 64 * 1024;
const START_TIMEOUT_MS = 120_000;

export interface CmsDevice {
  readonly hostId: string;
  readonly deviceId: string;
  readonly path: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** A whole mesh of real processes on one store, with what faults need to get at it. */
export class SoakMesh implements AsyncDisposable {
  readonly workHosts = WORK_HOSTS;
  readonly cmsHosts = CMS_HOSTS;
  readonly clients;
  /** Calls of these are not measured: they only look. */
  readonly quietClients;
  readonly supervised = new Map<string, Supervised>();
  /** By host. */
  readonly drives = new Map<string, Drive>();
  /** By the process that has its state there. */
  readonly smallDisks = new Map<string, SmallDisk>();
  readonly clocks: Clocks;
  readonly cmsDevices: readonly CmsDevice[];
  readonly #agents: ReadonlyMap<string, Client<typeof DiskAgentServiceDefinition>>;

  private constructor(
    readonly group: ServiceGroup,
    readonly store: Store,
    readonly directors: readonly string[],
    readonly registries: readonly string[],
    /** Undefined where all share that of the machine. */
    readonly network: SoakNetwork | undefined,
    readonly nats: NatsServer,
    measures: Measures,
  ) {
    this.clocks = new Clocks(group.folder);
    this.clients = operatorClients(group, directors, registries, measures);
    this.quietClients = operatorClients(group, directors, registries);
    this.#agents = agentClients(group);
    this.cmsDevices = CMS_HOSTS.flatMap((hostId) => cmsDevicesOf(hostId, group.folder));
  }

  /** Starts everything and waits until all of it serves; or says why the store cannot be had. */
  static async start(options: {
    readonly store: StoreName;
    readonly measures: Measures;
    readonly onOwnExit: (exit: OwnExit) => void;
  }): Promise<SoakMesh | string> {
    const leaders = options.store === "embedded" ? [1] : [1, 2];
    const directors = leaders.map((number) => `director-${number}`);
    const registries = leaders.map((number) => `disk-registry-${number}`);
    const names = [...directors, "cpi-dispatcher", ...registries];
    const hostIds = [...WORK_HOSTS, ...CMS_HOSTS];
    const others = ["nats", "database"];
    const places = isIsolated ? new SoakNetwork([...names, ...hostIds, ...others]) : undefined;
    const place = { host: places?.host("database") ?? "127.0.0.1", launcher: places?.launcher("database") ?? [] };
    const store = await openStore(options.store, place);
    if (typeof store === "string") return store;
    const group = await ServiceGroup.prepare({ names, hostIds, ...(places ? { places } : {}) });
    group.closeLater({ close: store.remove });
    const nats = await group.startNats();
    const mesh = new SoakMesh(group, store, directors, registries, places, nats, options.measures);
    try {
      await mesh.#start(options.onOwnExit);
      return mesh;
    } catch (error) {
      await mesh[Symbol.asyncDispose]();
      throw error;
    }
  }

  get hostIds(): readonly string[] {
    return this.group.hostIds;
  }

  /** For the callers of the kill test. */
  get operator() {
    return this.clients.registry;
  }

  agent(hostId: string): ServiceProcess {
    return this.group.process(hostId);
  }

  agentClient(hostId: string): Client<typeof DiskAgentServiceDefinition> {
    const client = this.#agents.get(hostId);
    if (client === undefined) throw new Error(`no agent of ${hostId}`);
    return client;
  }

  async device(deviceId: string): Promise<Device> {
    const { device } = await this.clients.registry.getDevice({ deviceId });
    if (device === undefined) throw new Error("the answer has no device");
    return device;
  }

  /** All processes and their pids; those that are away have none. */
  pids(): ReadonlyMap<string, number> {
    const running = [...this.supervised].filter(([, { process }]) => process.exit === undefined);
    return new Map(running.map(([name, { process }]) => [name, process.pid]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.supervised.values()) one[Symbol.dispose]();
    // A process in a read that hangs ends only when the drive goes on.
    for (const drive of this.drives.values()) drive.resume();
    await this.group[Symbol.asyncDispose]();
    for (const drive of this.drives.values()) await drive.close();
    for (const disk of this.smallDisks.values()) disk[Symbol.dispose]();
    await this.store.database?.kill();
  }

  async #start(onOwnExit: (exit: OwnExit) => void): Promise<void> {
    if (isIsolated) await this.#prepareDisks();
    const plans = [...this.#services(), ...this.group.hostIds.map((hostId) => this.#agentPlan(hostId))];
    await this.group.start(plans);
    for (const [name, process] of this.group.processes)
      this.supervised.set(name, new Supervised(name, process, onOwnExit));
    const areUp = () => [...this.supervised.values()].every((one) => one.isUp);
    await eventually(areUp, { timeoutMs: START_TIMEOUT_MS });
  }

  get #natsAddress(): string {
    return this.network?.natsAddress(this.nats.port) ?? this.nats.address;
  }

  /** Where faults can get at them; without namespaces of the soak's own nothing is mounted. */
  async #prepareDisks(): Promise<void> {
    const { group } = this;
    if (Drive.problem() === undefined)
      for (const hostId of HOSTS_WITH_DRIVES)
        this.drives.set(
          hostId,
          await Drive.open(join(group.folder, "drives", hostId), DEVICES_PER_DRIVE * DEVICE_BYTES),
        );
    if (smallDiskProblem() !== undefined) return;
    const [director = "", registry = ""] = [this.directors[0], this.registries[0]];
    const folders = new Map([["work-3", group.baseFolder("work-3")]]);
    if (this.store.tablet === undefined)
      for (const name of [director, registry]) folders.set(name, group.dataFolder(name));
    for (const [name, folder] of folders) this.smallDisks.set(name, mountSmallDisk(folder));
  }

  #services(): ServicePlan[] {
    const { group, directors, registries, store } = this;
    const registryAddresses = registries.map((name) => group.address(name));
    const tablet = (service: string, name: string) => store.tablet?.(service) ?? { storage: group.dataFolder(name) };
    return [
      ...registries.map((name) =>
        this.#plan(name, "disk-registry", { tablet: tablet("disk-registry", name), ...registryLimits }),
      ),
      this.#plan("cpi-dispatcher", "cpi-dispatcher", { registry: { address: registryAddresses } }),
      ...directors.map((name) =>
        this.#plan(name, "director", {
          tablet: tablet("director", name),
          dispatcher: { address: group.address("cpi-dispatcher") },
          nats: { servers: [this.#natsAddress] },
          stemcells: { folder: join(group.folder, `${name}-stemcells`) },
          ...directorLimits,
        }),
      ),
    ];
  }

  #agentPlan(hostId: string): ServicePlan {
    const { group } = this;
    const isWork = WORK_HOSTS.some((name) => name === hostId);
    const config = group.agentConfig(
      hostId,
      this.registries.map((name) => group.address(name)),
      isWork ? WORK_AZ : CMS_AZ,
    );
    const devices = isWork ? this.#workDevices(hostId) : this.#cmsDevices(hostId);
    return this.#plan(hostId, "disk-agent", {
      ...config,
      devices,
      nats: { servers: [this.#natsAddress], tls: group.certificates.files(`disk-agent-${hostId}`) },
    });
  }

  #workDevices(hostId: string): Omit<CmsDevice, "hostId">[] {
    const drive = this.drives.get(hostId);
    const files = DEVICES_PER_WORK_HOST - (drive === undefined ? 0 : DEVICES_PER_DRIVE);
    return Array.from({ length: DEVICES_PER_WORK_HOST }, (_, index) => ({
      deviceId: `${hostId}-d${index + 1}`,
      sizeBytes: DEVICE_BYTES,
      ...(drive === undefined || index < files
        ? { path: makeDeviceFile(this.group.deviceFile(hostId, index), DEVICE_BYTES), offsetBytes: 0 }
        : { path: drive.path, offsetBytes: (index - files) * DEVICE_BYTES }),
    }));
  }

  /** With something on them that nobody may find when they leave. */
  #cmsDevices(hostId: string): Omit<CmsDevice, "hostId">[] {
    const devices = this.cmsDevices.filter((device) => device.hostId === hostId);
    for (const { path } of devices) makeDeviceFile(path, 2 * CMS_DEVICE_BYTES);
    for (const device of devices) fillRange(device);
    return devices.map(({ hostId: _, ...device }) => device);
  }

  #plan(name: string, service: ServicePlan["service"], config: object): ServicePlan {
    return { name, service, config, waitFor: "nothing", env: isIsolated ? this.clocks.environment(name) : {} };
  }
}

/** Two to a file. */
function cmsDevicesOf(hostId: string, folder: string): CmsDevice[] {
  return Array.from({ length: DEVICES_PER_CMS_HOST }, (_, index) => ({
    hostId,
    deviceId: `${hostId}-d${index + 1}`,
    path: join(folder, "devices", hostId, `${Math.floor(index / 2) + 1}.img`),
    offsetBytes: (index % 2) * CMS_DEVICE_BYTES,
    sizeBytes: CMS_DEVICE_BYTES,
  }));
}

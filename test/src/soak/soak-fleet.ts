import { join } from "node:path";
import { MIB_BYTES } from "@diskmesh/domain";
import { Drive, eventually, type SmallDisk } from "@diskmesh/testkit";
import type { Clients } from "../mesh/clients.js";
import { fillRange, makeDeviceFile } from "../mesh/device-files.js";
import type { PlacedMesh, ProcessPlan } from "../mesh/plan.js";
import { openStore, type Store, type StoreName } from "../mesh/stores.js";
import { TestMesh } from "../mesh/test-mesh.js";
import { isIsolated } from "../namespaces/isolation.js";
import { Clocks } from "./clocks.js";
import { type Measures, measuredClients } from "./measures.js";
import { directorLimits, registryLimits } from "./service-limits.js";
import { mountSmallDisk, smallDiskProblem } from "./small-disk.js";
import { SoakNetwork } from "./soak-network.js";
import { type OwnExit, Supervised } from "./supervised.js";

/** Az of VMs and disks. */
export const WORK_AZ = "z1";
const WORK_HOSTS: readonly string[] = ["work-1", "work-2", "work-3"];
/** Hosts that infrastructure automation adds and removes; disks are never created on them. */
const CMS_HOSTS: readonly string[] = ["cms-1", "cms-2"];
const CMS_AZ = "cms";
/** Hosts whose last device is on a drive that can fail and hang. */
const HOSTS_WITH_DRIVES: readonly string[] = ["work-1", "work-2"];
const DEVICES_PER_WORK_HOST = 6;
const DEVICES_PER_DRIVE = 3;
const DEVICES_PER_CMS_HOST = 4;
export const DEVICE_BYTES = MIB_BYTES;
const CMS_DEVICE_BYTES = 64 * 1024;
const START_TIMEOUT_MS = 120_000;
/** Deadline in ms, short enough to find another leader during a fault. */
const DEADLINE_MS = 15_000;

export interface CmsDevice {
  readonly hostId: string;
  readonly deviceId: string;
  readonly path: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** Targets of faults in addition to processes. */
interface Surroundings {
  /** Drives by host. */
  readonly drives: Map<string, Drive>;
  /** Small disks by the process whose state they hold. */
  readonly smallDisks: Map<string, SmallDisk>;
  /** Network with a namespace for each process; undefined when all share the machine's network. */
  readonly network: SoakNetwork | undefined;
}

/** A whole mesh of real processes on one store, with access for faults. */
export class SoakFleet implements AsyncDisposable {
  readonly workHosts = WORK_HOSTS;
  readonly cmsHosts = CMS_HOSTS;
  /** Clients with measured calls. The mesh's own clients only observe. */
  readonly clients: Clients;
  readonly supervised = new Map<string, Supervised>();
  readonly clocks: Clocks;
  readonly cmsDevices: readonly CmsDevice[];

  private constructor(
    readonly mesh: TestMesh,
    readonly store: Store,
    readonly surroundings: Surroundings,
    measures: Measures,
  ) {
    this.clocks = new Clocks(mesh.folder);
    this.clients = measuredClients(mesh.clients, measures);
    this.cmsDevices = CMS_HOSTS.flatMap((hostId) => cmsDevicesOf(hostId, mesh.folder));
  }

  /** Starts all processes, and waits until they serve. Returns the reason when the store is not available. */
  static async start(options: {
    readonly store: StoreName;
    readonly measures: Measures;
    readonly onOwnExit: (exit: OwnExit) => void;
  }): Promise<SoakFleet | string> {
    const processes = processNames(options.store);
    const machines = [...processes.map(({ name }) => name), "nats", "database"];
    const network = isIsolated ? new SoakNetwork(machines) : undefined;
    const place = { host: network?.host("database") ?? "127.0.0.1", launcher: network?.launcher("database") ?? [] };
    const store = await openStore(options.store, place);
    if (typeof store === "string") return store;
    const surroundings: Surroundings = { drives: new Map(), smallDisks: new Map(), network };
    const mesh = await TestMesh.start({
      processes: processes.map((one) => processOf(one, surroundings)),
      places: network,
      tablet: store.tablet,
      deadlineMs: DEADLINE_MS,
      prepare: async (prepared) => {
        prepared.closeLater({ close: () => close(surroundings, store) });
        if (isIsolated) await prepareDisks(prepared, store, surroundings);
      },
    });
    const fleet = new SoakFleet(mesh, store, surroundings, options.measures);
    try {
      await fleet.#supervise(options.onOwnExit);
      return fleet;
    } catch (error) {
      await fleet[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Returns the process id of each running process, by name. */
  pids(): ReadonlyMap<string, number> {
    const running = [...this.supervised].filter(([, { process }]) => process.exit === undefined);
    return new Map(running.map(([name, { process }]) => [name, process.pid]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.supervised.values()) one[Symbol.dispose]();
    // A process with a hanging read ends only when the drive continues.
    for (const drive of this.surroundings.drives.values()) drive.resume();
    await this.mesh[Symbol.asyncDispose]();
  }

  async #supervise(onOwnExit: (exit: OwnExit) => void): Promise<void> {
    for (const [name, process] of this.mesh.processes)
      this.supervised.set(name, new Supervised(name, process, onOwnExit));
    const areUp = () => [...this.supervised.values()].every((one) => one.isUp);
    await eventually(areUp, { timeoutMs: START_TIMEOUT_MS });
  }
}

async function close({ drives, smallDisks }: Surroundings, store: Store): Promise<void> {
  for (const drive of drives.values()) await drive.close();
  for (const disk of smallDisks.values()) disk[Symbol.dispose]();
  await store.remove();
  await store.database?.kill();
}

type Named = Pick<ProcessPlan, "service"> & { readonly name: string };

function processNames(store: StoreName): Named[] {
  const leaders = store === "embedded" ? [1] : [1, 2];
  const leading = (service: "disk-registry" | "director") =>
    leaders.map((number): Named => ({ service, name: `${service}-${number}` }));
  return [
    ...leading("disk-registry"),
    { service: "cpi-dispatcher", name: "cpi-dispatcher" },
    ...leading("director"),
    ...[...WORK_HOSTS, ...CMS_HOSTS].map((name): Named => ({ service: "disk-agent", name })),
  ];
}

function processOf({ service, name }: Named, { drives, network }: Surroundings): ProcessPlan {
  const natsOf = (mesh: PlacedMesh) => network?.natsAddress(mesh.listen("nats").port) ?? mesh.address("nats");
  const configs = {
    "disk-registry": () => registryLimits,
    "cpi-dispatcher": () => ({}),
    director: (mesh: PlacedMesh) => ({
      nats: { servers: [natsOf(mesh)] },
      stemcells: { folder: join(mesh.folder, `${name}-stemcells`) },
      ...directorLimits,
    }),
    "disk-agent": (mesh: PlacedMesh) => ({
      az: WORK_HOSTS.includes(name) ? WORK_AZ : CMS_AZ,
      devices: WORK_HOSTS.includes(name) ? workDevices(mesh, name, drives.get(name)) : cmsDevices(mesh, name),
      nats: { servers: [natsOf(mesh)], tls: mesh.certificates.files(`disk-agent-${name}`) },
    }),
  };
  const env = ({ folder }: PlacedMesh) => (isIsolated ? new Clocks(folder).environment(name) : {});
  return { service, name, config: configs[service], waitFor: "nothing", env };
}

/** Mounts the disks and drives for faults; mounts nothing without a separate mount namespace. */
async function prepareDisks(mesh: PlacedMesh, store: Store, { drives, smallDisks }: Surroundings): Promise<void> {
  if (Drive.problem() === undefined)
    for (const hostId of HOSTS_WITH_DRIVES)
      drives.set(hostId, await Drive.open(join(mesh.folder, "drives", hostId), DEVICES_PER_DRIVE * DEVICE_BYTES));
  if (smallDiskProblem() !== undefined) return;
  const folders = new Map([["work-3", mesh.baseFolder("work-3")]]);
  if (store.tablet === undefined)
    for (const name of ["director-1", "disk-registry-1"]) folders.set(name, mesh.dataFolder(name));
  for (const [name, folder] of folders) smallDisks.set(name, mountSmallDisk(folder));
}

function workDevices(mesh: PlacedMesh, hostId: string, drive: Drive | undefined): Omit<CmsDevice, "hostId">[] {
  const files = DEVICES_PER_WORK_HOST - (drive === undefined ? 0 : DEVICES_PER_DRIVE);
  return Array.from({ length: DEVICES_PER_WORK_HOST }, (_, index) => ({
    deviceId: `${hostId}-d${index + 1}`,
    sizeBytes: DEVICE_BYTES,
    ...(drive === undefined || index < files
      ? { path: makeDeviceFile(mesh.deviceFile(hostId, index), DEVICE_BYTES), offsetBytes: 0 }
      : { path: drive.path, offsetBytes: (index - files) * DEVICE_BYTES }),
  }));
}

/** Creates devices with data that must be erased before they leave. */
function cmsDevices({ folder }: PlacedMesh, name: string): Omit<CmsDevice, "hostId">[] {
  const devices = cmsDevicesOf(name, folder);
  for (const { path } of devices) makeDeviceFile(path, 2 * CMS_DEVICE_BYTES);
  for (const device of devices) fillRange(device);
  return devices.map(({ hostId: _, ...device }) => device);
}

/** Returns the devices of a host; two devices share a file. */
function cmsDevicesOf(hostId: string, folder: string): CmsDevice[] {
  return Array.from({ length: DEVICES_PER_CMS_HOST }, (_, index) => ({
    hostId,
    deviceId: `${hostId}-d${index + 1}`,
    path: join(folder, "devices", hostId, `${Math.floor(index / 2) + 1}.img`),
    offsetBytes: (index % 2) * CMS_DEVICE_BYTES,
    sizeBytes: CMS_DEVICE_BYTES,
  }));
}

import {
  addHost,
  allocate,
  type Device,
  type Disk,
  type DiskRequest,
  disksOn,
  type Host,
  registerAgent,
  schema,
} from "@diskmesh/disk-registry/simulation";
import { parseDeviceId, parseDiskId, parseHostId } from "@diskmesh/domain";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { temporaryFolder } from "@diskmesh/testkit";
import { heapBytes, medians, once, type Round } from "./measure.js";
import { storedDevice, storedHost } from "./stored-fleet.js";

const HOSTS = 1_000;
const DRIVES = 24;
const DISKS = 100_000;
const [MIB, GIB, TB] = [2 ** 20, 2 ** 30, 4_000_787_030_016];
const SLICE_BYTES = 64 * MIB;
/** Slices of a run of 512 MiB, and of the free run behind it. */
const [TAKEN, STEP] = [9, 12];
const PER_TRANSACTION = 1_000;
const SAMPLES = 50;
const CALL = { nowMs: 0, waitingRetryAfterMs: 1 };

const hostOf = (host: number) => parseHostId(`host-${host}`);
const driveOf = (drive: number) => parseDeviceId(`host-${Math.floor(drive / DRIVES)}-drive-${drive % DRIVES}`);
const diskOf = (disk: number) => parseDiskId(`disk-${disk}`);

/**
 * Measures a registry of drives that many disks share, each of two runs: its heap and load, calls about a host of many
 * drives, and the choice of runs.
 */
export const measureSpace = once(async (report) => {
  report(`the space of ${DISKS} disks on ${HOSTS * DRIVES} drives`);
  const storage = temporaryFolder();
  const opened = { name: "registry", schema, storage: openStorage(storage, "registry"), address: "" };
  await store(opened);
  const before = heapBytes();
  const cpuBefore = process.cpuUsage();
  await using tablet = await Tablet.open({ ...opened, storage: openStorage(storage, "registry") });
  const load = { value: cpuSince(cpuBefore) / 1_000, unit: "s" };
  const heap = { value: (heapBytes() - before) / 1e6, unit: "MB" };
  const leader = { tabletId: tablet.id, incarnation: tablet.incarnation, tabletGeneration: 1 };
  const rounds: Round[] = [];
  for (let sample = -SAMPLES; sample < SAMPLES; sample++) {
    const host = sample + SAMPLES;
    const registration = await tablet.read(({ devices }) =>
      registrationOf(host, devices.by("byHost", hostOf(host)), leader),
    );
    const registering = await cpuOf(() =>
      tablet.transact((tx) => {
        const { allowed } = registerAgent(tx, registration, leader, { maxHosts: HOSTS }, 0);
        if (allowed.length !== DRIVES) throw new Error(`${allowed.length} of ${DRIVES} drives are allowed`);
      }),
    );
    await tablet.transact((tx) => {
      for (const device of [...tx.devices.by("byHost", hostOf(HOSTS - 1 - host))])
        tx.devices.put({ ...device, attachState: "DETACHED" });
    });
    const adding = await cpuOf(() => tablet.transact((tx) => addHost(tx, hostOf(HOSTS - 1 - host), CALL)));
    const chosen = (sizeBytes: number, spreadRacks: boolean) =>
      cpuOf(() => tablet.read((tables) => choose(tables, { sizeBytes, spreadRacks }, sample)));
    const [small, large, spread] = [await chosen(GIB, false), await chosen(100 * GIB, false), await chosen(TB, true)];
    if (sample >= 0) rounds.push(inMs({ add_host: adding, registration: registering, small, large, spread }));
  }
  const request = { sizeBytes: GIB, spreadRacks: false };
  const taken = await tablet.read((tables) => choose(tables, request, 0));
  return {
    space_heap: heap,
    space_load: load,
    ...medians(rounds),
    space_of_1_gib: { value: taken / GIB, unit: "of its size" },
  };
});

/** Returns the processor time in ms since the given one. */
function cpuSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

async function cpuOf(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  return cpuSince(before);
}

function inMs(values: Readonly<Record<string, number>>): Round {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [`space_${name}`, { value, unit: "ms" }] as const),
  );
}

type Tables = Parameters<typeof allocate>[0];
type Leader = Parameters<typeof registerAgent>[2];

/** Chooses runs for a disk. Returns the bytes that it takes. */
function choose(
  tables: Tables,
  { sizeBytes, spreadRacks }: Pick<DiskRequest, "sizeBytes" | "spreadRacks">,
  draw: number,
) {
  const request = { sizeBytes, spreadRacks, az: "z1", hostId: "" as const, pool: "default" };
  const of = { whySuspected: () => undefined, mayYetBeHeard: () => false, nearHostId: "" as const };
  const allocation = allocate(tables, request, { ...of, draw: Math.abs(draw) / SAMPLES, maxDevices: 256 });
  if (!("spaces" in allocation)) throw new Error(`no space for ${sizeBytes} bytes`);
  return allocation.spaces.reduce((sum, { slices }) => sum + (slices?.count ?? 0) * SLICE_BYTES, 0);
}

/** Returns what an agent tells that has restarted, of devices that it finds as they are recorded. */
function registrationOf(
  host: number,
  devices: Iterable<Device>,
  { tabletId }: Leader,
): Parameters<typeof registerAgent>[1] {
  const { hostId, address, az, rack } = hostWithSlices(host);
  const reported = [...devices].map((device) => ({
    ...device,
    labelState: "VALID" as const,
    readLabel: { fleetId: tabletId, deviceId: device.deviceId, labelId: device.label?.labelId ?? "" },
    attached: false,
    sessionNumber: 1,
    sessionDiskId: disksOn([device])[0] ?? ("" as const),
    ranges: device.runs.map(({ first, count = 0, diskId }) => {
      return { offsetBytes: MIB + first * SLICE_BYTES, sizeBytes: count * SLICE_BYTES, sessionNumber: 1, diskId };
    }),
  }));
  const numbers = { tabletGeneration: 0, deviceGeneration: 0, sessionNumber: 0 };
  const remembered = { tabletId: "", incarnation: "", ...numbers };
  return { hostId, address, az, rack, bootId: "after", devices: reported, exports: [], remembered, slices: true };
}

const hostWithSlices = (host: number): Host => ({ ...storedHost(host), hostId: hostOf(host), slices: true });

/** Stores disks of two runs each. A drive has a free run behind each run. */
async function store(opened: Parameters<typeof Tablet.open<typeof schema>>[0]): Promise<void> {
  await using tablet = await Tablet.open(opened);
  const drives = HOSTS * DRIVES;
  /** Returns the drive of one of all runs, and the first slice there. */
  const placeOf = (run: number) => ({ drive: run % drives, first: Math.floor(run / drives) * STEP });
  for (let from = 0; from < HOSTS; from += PER_TRANSACTION / DRIVES)
    await tablet.transact((tx) => {
      for (let host = Math.ceil(from); host < Math.min(HOSTS, from + PER_TRANSACTION / DRIVES); host++) {
        tx.hosts.put(hostWithSlices(host));
        for (let drive = host * DRIVES; drive < (host + 1) * DRIVES; drive++) tx.devices.put(driveWith(drive, drives));
      }
      tx.counters.put({ name: "device_generation", value: drives });
      tx.counters.put({ name: "session_number", value: DISKS });
    });
  for (let from = 0; from < DISKS; from += PER_TRANSACTION)
    await tablet.transact((tx) => {
      for (let disk = from; disk < from + PER_TRANSACTION; disk++) {
        const places = [2 * disk, 2 * disk + 1].map(placeOf);
        tx.disks.put(diskAt(disk, places));
      }
    });
}

function driveWith(drive: number, drives: number): Device {
  const runs = [];
  for (let at = 0; drive + at * drives < 2 * DISKS; at++)
    runs.push({ first: at * STEP, count: TAKEN, diskId: diskOf(Math.floor((drive + at * drives) / 2)) });
  const [host, at] = [Math.floor(drive / DRIVES), drive % DRIVES];
  const label = { labelId: `${drive}`.padStart(32, "0") };
  const facts = { deviceId: driveOf(drive), hostId: hostOf(host), sizeBytes: TB, sliceBytes: SLICE_BYTES };
  return { ...storedDevice(host, at), ...facts, serialNumber: `serial-${drive}`, runs, label, labelState: "VALID" };
}

function diskAt(disk: number, places: readonly { readonly drive: number; readonly first: number }[]): Disk {
  const sizeBytes = TAKEN * SLICE_BYTES - MIB;
  const request = { sizeBytes: GIB, az: "z1", hostId: "" as const, pool: "default", spreadRacks: false };
  const parts = places.map(({ drive, first }) => ({
    sizeBytes,
    copies: [{ deviceId: driveOf(drive), first, state: "COUNTS" as const }],
  }));
  const sizes = { sizeBytes: sizeBytes * parts.length, blockSizeBytes: 4_096 };
  return { diskId: diskOf(disk), requested: request, ...sizes, az: "z1", parts, labels: [], createdAtMs: 0 };
}

import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { realpathSync } from "node:fs";
import { promisify } from "node:util";
import { DriverProcess } from "@diskmesh/csi-driver/testing";
import { TestDirector } from "@diskmesh/director/testing";
import { whyNoBlockDevices } from "@diskmesh/disk-agent/block-devices";
import { eventually } from "@diskmesh/testkit";
import { CsiMesh } from "../csi/csi-mesh.js";
import { inOrder, type NodeOrder } from "../csi/node-order.js";
import { type Measurement, measurement, median, p99 } from "./measure.js";

const LIVES = 100;
/** Lives before counting starts, in which code is compiled. */
const WARMUP_LIVES = 5;
const AT_ONCE = 100;
const HOSTS = 2;
const LISTED = 10_000;
const LISTS = 11;
const MAX_P50_MS = 150;
const MAX_P99_MS = 500;
const MAX_AT_ONCE_MS = 10_000;
const MAX_LIST_MS = 200;

/** Measures the time of a CSI driver: for one volume after another, for many at once, and for a long list. */
export async function benchCsi(report: (line: string) => void): Promise<Measurement[]> {
  const whyNot = await whyNoBlockDevices();
  if (whyNot !== undefined) report(`volumes are not measured: ${whyNot}`);
  return [...(whyNot === undefined ? await volumes(report) : []), await list(report)];
}

async function volumes(report: (line: string) => void): Promise<Measurement[]> {
  await using csi = await CsiMesh.start({ hosts: HOSTS, devicesPerHost: AT_ONCE / HOSTS });
  report(`${LIVES} volumes, one after another`);
  const timesMs: number[] = [];
  for (let life = 0; life < WARMUP_LIVES + LIVES; life++) {
    const [order, tookMs] = await usable(csi, life);
    if (life >= WARMUP_LIVES) timesMs.push(tookMs);
    await end(csi, order);
  }
  report(`${AT_ONCE} volumes at once`);
  await csi.ready();
  const startedMs = performance.now();
  const orders = await Promise.all(
    Array.from({ length: AT_ONCE }, async (_, index) => {
      const order = csi.orderOn(index % HOSTS, await csi.create(`at-once-${index}`));
      // An orchestrator repeats a call that waited too long for its node, which attaches one disk at a time.
      for (const call of order.up) await eventually(call);
      return order;
    }),
  );
  const atOnceMs = performance.now() - startedMs;
  await Promise.all(orders.map((order) => end(csi, order)));
  return [
    atMost("csi_volume_p50", median(timesMs), MAX_P50_MS),
    atMost("csi_volume_p99", p99(timesMs), MAX_P99_MS),
    atMost(`csi_${AT_ONCE}_volumes_at_once`, atOnceMs, MAX_AT_ONCE_MS),
  ];
}

/** Makes a volume and mounts it. Returns the time without mkfs, which is not the driver's. */
async function usable(csi: CsiMesh, life: number): Promise<[NodeOrder, number]> {
  let tookMs = 0;
  const timed = async <T>(work: () => Promise<T>): Promise<T> => {
    const startedMs = performance.now();
    try {
      return await work();
    } finally {
      tookMs += performance.now() - startedMs;
    }
  };
  const order = csi.orderOn(0, await timed(() => csi.create(`life-${life}`)));
  await timed(() => order.attach());
  const device = realpathSync(csi.mesh.dynamicDisk("host-1", order.publishContext.diskCid ?? ""));
  await promisify(execFile)("mkfs.ext4", ["-q", "-F", "-E", "nodiscard", device]);
  await timed(() => inOrder([() => order.stage(), () => order.publish()]));
  return [order, tookMs];
}

async function end(csi: CsiMesh, order: NodeOrder): Promise<void> {
  for (const call of order.down) await eventually(call);
  await csi.remove(order.volumeId);
}

async function list(report: (line: string) => void): Promise<Measurement> {
  report(`a list of ${LISTED} volumes`);
  const director = await TestDirector.start({
    log: { level: "warn" },
    tuning: { tasks: { maxKeptTasks: 2 * LISTED } },
  });
  try {
    await director.deploy("bench", 1);
    director.cpi.capacityMib = LISTED * 10;
    await createDisks(director);
    const controller = {
      director: { address: director.address },
      tls: director.certs.files("csi"),
      deployment: "bench",
      azs: ["z1"],
    };
    await using driver = await DriverProcess.start({ controller }, "controller");
    const timesMs: number[] = [];
    for (let round = 0; round < LISTS; round++) {
      const startedMs = performance.now();
      const { entries } = await driver.clients.controller.listVolumes({});
      timesMs.push(performance.now() - startedMs);
      if (entries.length !== LISTED) throw new Error(`the list has ${entries.length} of ${LISTED} volumes`);
    }
    return atMost(`csi_list_of_${LISTED}`, median(timesMs), MAX_LIST_MS);
  } finally {
    await director.stop();
  }
}

async function createDisks({ disks }: TestDirector): Promise<void> {
  let made = 0;
  const maker = async (): Promise<void> => {
    while (made++ < LISTED) {
      const diskName = `csi-${randomBytes(16).toString("hex")}`;
      await disks.createDisk({
        diskName,
        deployment: "bench",
        az: "z1",
        diskPoolName: "fast",
        sizeBytes: 1,
        wait: true,
      });
    }
  };
  await Promise.all(Array.from({ length: 32 }, maker));
}

function atMost(name: string, value: number, mostMs: number): Measurement {
  return measurement({ name, value, unit: "ms", floor: mostMs, floorOf: "the most allowed", budget: { atMost: 1 } });
}

import { open } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { whyNoBlockDevices } from "@diskmesh/disk-agent/block-devices";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { eventually } from "@diskmesh/testkit";
import { deployInstances, detachDisk, provideDisk } from "../../mesh/steps.js";
import { cpuTimeMs, type Measurement, measurement, median, p99 } from "../measure.js";
import { type BenchDisk, DEVICE_HOST, DISK_BYTES, type Engine, fio, onDisk, startMesh } from "./disk.js";

const BLOCK_BYTES = 4096;
const FENCES = 100;
const DEPTH = 64;
const CONNECTIONS = 4;
const PROVIDES = 100;
/** Provides before counting starts, in which code is compiled. */
const WARMUP_PROVIDES = 10;
const CPU_SECONDS = 5;
const RESTARTS = 5;
const RESTART_FIO_SECONDS = 15;

const MAX_FENCE_MS = 100;
const MAX_PROVIDE_P50_MS = 150;
const MAX_PROVIDE_P99_MS = 500;
const MAX_DETACH_MS = 300;
const MAX_CPU_US = 30;
const MAX_PAUSE_MS = 50;

/** Measures how long a disk takes to be provided, fenced and detached, and what its agent costs and survives. */
export async function benchTimes(report: (line: string) => void): Promise<Measurement[]> {
  const measured: Measurement[] = [];
  const add = (one: Measurement) => {
    report(`${one.name}: ${one.value.toFixed(1)} ${one.unit}`);
    measured.push(one);
  };
  for (const engine of ["node", "qemu"] as const)
    for (const where of ["local", "remote"] as const) {
      const fencesMs = await onDisk(report, engine, where, (disk) => fences(disk));
      add(atMost(`data_${engine}_${where}_fence_p99`, p99(fencesMs), "ms", MAX_FENCE_MS));
    }
  add(await onDisk(report, "node", "local", cpu));
  for (const where of ["local", "remote"] as const)
    add(
      await onDisk(report, "qemu", where, async (disk) =>
        atMost(`data_qemu_${where}_restart_pause`, await longestPauseMs(disk), "ms", MAX_PAUSE_MS),
      ),
    );
  const whyNot = await whyNoBlockDevices();
  if (whyNot === undefined) return [...measured, ...(await provides(report, "qemu"))];
  report(`providing a block device is not measured: ${whyNot}`);
  return measured;
}

/** Measures fences of writers: from the order to unpublish until the registry has every device's grant. */
async function fences({ mesh, diskId, hostId, socket }: BenchDisk): Promise<number[]> {
  const { registry } = mesh.clients;
  const timesMs: number[] = [];
  for (let count = 0; count < FENCES; count++) {
    await registry.publishDisk({ diskId, hostId });
    const flood = await beginFlood(socket);
    await eventually(() => flood.writes() >= DEPTH, { everyMs: 1 });
    const startedMs = performance.now();
    await registry.unpublishDisk({ diskId });
    timesMs.push(performance.now() - startedMs);
    await flood.ended;
  }
  return timesMs;
}

async function beginFlood(socketPath: string) {
  let writes = 0;
  const clients = await Promise.all(Array.from({ length: CONNECTIONS }, () => NbdClient.connect({ socketPath })));
  const data = Buffer.alloc(BLOCK_BYTES, 1);
  const write = async (client: NbdClient): Promise<void> => {
    for (;;) {
      const block = Math.floor(Math.random() * (DISK_BYTES / BLOCK_BYTES));
      await client.write(block * BLOCK_BYTES, data);
      writes++;
    }
  };
  const running = clients.flatMap((client) => Array.from({ length: DEPTH / CONNECTIONS }, () => write(client)));
  return { writes: () => writes, ended: Promise.allSettled(running) };
}

/** Measures the CPU time that an agent with the engine node takes for a random read of 4 KiB. */
async function cpu({ mesh, socket }: BenchDisk): Promise<Measurement> {
  const load = ["--rw=randread", "--bs=4k", "--iodepth=32", "--time_based"];
  await fio({ socket }, [...load, "--runtime=2"]);
  const { pid } = mesh.process(DEVICE_HOST);
  const beforeMs = cpuTimeMs(pid);
  const { operations } = await fio({ socket }, [...load, `--runtime=${CPU_SECONDS}`]);
  const usPerRead = (1_000 * (cpuTimeMs(pid) - beforeMs)) / operations;
  return atMost("data_node_local_4k_cpu", usPerRead, "us/read", MAX_CPU_US);
}

/** Returns the longest operation in ms of a fio that verifies what it wrote, while both agents restart. */
async function longestPauseMs({ mesh, socket }: BenchDisk): Promise<number> {
  const load = ["--rw=randwrite", "--bs=4k", "--iodepth=16", "--rate_iops=2000", "--fsync=32"];
  const verify = ["--verify=crc32c", "--verify_fatal=1", "--verify_backlog=1024", "--verify_state_save=0"];
  const running = fio({ socket }, [...load, ...verify, "--time_based", `--runtime=${RESTART_FIO_SECONDS}`]);
  const restarts = (async () => {
    for (let count = 0; count < RESTARTS; count++)
      for (const name of mesh.hostIds) {
        await sleep((500 * RESTART_FIO_SECONDS) / RESTARTS / mesh.hostIds.length);
        const agent = mesh.process(name);
        await (count % 2 === 0 ? agent.stop() : agent.kill());
        await agent.start();
      }
  })();
  const [{ longestMs }] = await Promise.all([running, restarts]);
  return longestMs;
}

/** Measures a director's provide, until a block is on the device, and its detach. */
async function provides(report: (line: string) => void, engine: Engine): Promise<Measurement[]> {
  report("providing and detaching a disk ...");
  await using mesh = await startMesh(engine);
  const [instanceId = ""] = await deployInstances(mesh);
  const diskCid = await provideDisk(mesh, "bench", instanceId);
  const path = mesh.dynamicDisk(DEVICE_HOST, diskCid);
  const provideMs: number[] = [];
  const detachMs: number[] = [];
  for (let count = 0; count < WARMUP_PROVIDES + PROVIDES; count++) {
    const detachStartedMs = performance.now();
    await detachDisk(mesh, "bench");
    const provideStartedMs = performance.now();
    await provideDisk(mesh, "bench", instanceId);
    await writeBlock(path);
    if (count < WARMUP_PROVIDES) continue;
    detachMs.push(provideStartedMs - detachStartedMs);
    provideMs.push(performance.now() - provideStartedMs);
  }
  return [
    atMost("data_qemu_provide_p50", median(provideMs), "ms", MAX_PROVIDE_P50_MS),
    atMost("data_qemu_provide_p99", p99(provideMs), "ms", MAX_PROVIDE_P99_MS),
    atMost("data_qemu_detach_p99", p99(detachMs), "ms", MAX_DETACH_MS),
  ];
}

async function writeBlock(path: string): Promise<void> {
  const file = await open(path, "r+");
  try {
    if (!(await file.stat()).isBlockDevice()) throw new Error(`${path} is no block device`);
    await file.write(Buffer.alloc(BLOCK_BYTES, 1), 0, BLOCK_BYTES, 0);
    await file.sync();
  } finally {
    await file.close();
  }
}

function atMost(name: string, value: number, unit: string, floor: number): Measurement {
  return measurement({ name, value, unit, floor, floorOf: "the goal", budget: { atMost: 1 } });
}

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { devicesWithBytes } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { MIB_BYTES } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { devicesReady } from "../../mesh/steps.js";
import type { TestMesh } from "../../mesh/test-mesh.js";
import { type Measurement, measurement, p99 } from "../measure.js";
import { DEVICE_HOST, DISK_BYTES, type Engine, fio, startMesh } from "./disk.js";

const OTHER_HOST = "host-2";
const BLOCK_BYTES = 4_096;
const ROUNDS = 3;
/** Rate of a move beside another disk's I/O, at which it takes longer than the measurement. */
const MOVE_BYTES_PER_SECOND = 16 * MIB_BYTES;
const LOAD = ["--rw=randrw", "--bs=4k", "--iodepth=4", "--time_based", "--runtime=5"];
const CUT_OVERS = 100;
const SMALL_BYTES = 4 * MIB_BYTES;

const MIN_SHARE_OF_DD = 0.6;
const MAX_FACTOR_OF_OTHER = 2;
const MAX_CUT_OVER_MS = 100;

/** Measures the copy of an idle disk beside dd, another disk while one moves, and writes at cut-overs. */
export async function benchMoves(report: (line: string) => void): Promise<Measurement[]> {
  const measured: Measurement[] = [];
  const add = (one: Measurement) => {
    report(`${one.name}: ${one.value.toFixed(1)} ${one.unit}, ${one.floorOf}: ${one.floor?.toFixed(1)}`);
    measured.push(one);
  };
  add(await idleCopy(report));
  for (const engine of ["node", "qemu"] as const) {
    add(await otherDisk(report, engine));
    add(await cutOvers(report, engine));
  }
  return measured;
}

/** Measures the best rate at which an idle disk moves to another host, from the request to the cut-over. */
async function idleCopy(report: (line: string) => void): Promise<Measurement> {
  report("moving an idle disk ...");
  await using mesh = await startMesh("node");
  const [from, to] = [mesh.deviceFile(DEVICE_HOST, 0), join(mesh.folder, "copied")];
  const diskId = "idle";
  const socket = await publish(mesh, diskId, DISK_BYTES);
  await fio({ socket }, ["--rw=write", "--bs=1m", "--iodepth=8", "--refill_buffers"]);
  await mesh.clients.registry.unpublishDisk({ diskId });
  const moved: number[] = [];
  const copied: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const source = round % 2 === 0 ? from : mesh.deviceFile(OTHER_HOST, 0);
    copied.push(await rateOf(() => copyByDd(source, to)));
    const target = round % 2 === 0 ? OTHER_HOST : DEVICE_HOST;
    moved.push(await rateOf(() => move(mesh, diskId, target)));
    await devicesReady(mesh);
  }
  return measurement({
    name: "data_move_idle",
    value: Math.max(...moved),
    unit: "MiB/s",
    floor: Math.max(...copied),
    floorOf: "dd with direct I/O and fsync",
    budget: { atLeast: MIN_SHARE_OF_DD },
  });
}

async function rateOf(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return (1_000 * DISK_BYTES) / MIB_BYTES / (performance.now() - startedMs);
}

function copyByDd(source: string, target: string): Promise<unknown> {
  const options = ["bs=1M", "iflag=direct", "oflag=direct", "conv=fsync"];
  return promisify(execFile)("dd", [`if=${source}`, `of=${target}`, ...options]);
}

/** Measures the p99 of a disk on the host whose other disk moves away at a set rate. */
async function otherDisk(report: (line: string) => void, engine: Engine): Promise<Measurement> {
  report(`using a disk beside one that moves, on engine ${engine} ...`);
  const registry = { moves: { bytesPerSecondOfHost: 2 * MOVE_BYTES_PER_SECOND } };
  await using mesh = await startMesh(engine, { devicesPerHost: 2, registry });
  const socket = await publish(mesh, "used", DISK_BYTES);
  await fio({ socket }, ["--rw=write", "--bs=1m", "--iodepth=8"]);
  const moving = await publish(mesh, "moving", DISK_BYTES);
  await fio({ socket: moving }, ["--rw=write", "--bs=1m", "--iodepth=8", "--refill_buffers"]);
  const { p99Ms: floor } = await fio({ socket }, LOAD);
  const isMoved = move(mesh, "moving", OTHER_HOST);
  const { p99Ms } = await fio({ socket }, LOAD);
  await isMoved;
  return measurement({
    name: `data_${engine}_p99_beside_move`,
    value: p99Ms,
    unit: "ms",
    floor,
    floorOf: "the same without a move",
    budget: { atMost: MAX_FACTOR_OF_OTHER },
  });
}

/** Measures the longest write of a disk in use during each of its moves. */
async function cutOvers(report: (line: string) => void, engine: Engine): Promise<Measurement> {
  report(`moving a disk in use ${CUT_OVERS} times, on engine ${engine} ...`);
  await using mesh = await startMesh(engine, { deviceSizeBytes: SMALL_BYTES });
  const client = await NbdClient.connect({ socketPath: await publish(mesh, "used", SMALL_BYTES) });
  let longestMs = 0;
  let isOver = false;
  const writing = (async () => {
    const data = Buffer.alloc(BLOCK_BYTES, 1);
    for (let count = 0; !isOver; count++) {
      const startedMs = performance.now();
      await client.write(((count * 37) % (SMALL_BYTES / BLOCK_BYTES)) * BLOCK_BYTES, data);
      longestMs = Math.max(longestMs, performance.now() - startedMs);
    }
  })();
  const timesMs: number[] = [];
  for (let count = 0; count < CUT_OVERS; count++) {
    longestMs = 0;
    await move(mesh, "used", count % 2 === 0 ? OTHER_HOST : DEVICE_HOST);
    timesMs.push(longestMs);
    await devicesReady(mesh);
  }
  isOver = true;
  await writing;
  await client.disconnect();
  return measurement({
    name: `data_${engine}_cut_over_p99`,
    value: p99(timesMs),
    unit: "ms",
    floor: MAX_CUT_OVER_MS,
    floorOf: "the goal",
    budget: { atMost: 1 },
  });
}

/** Creates a disk on a device of the first host, publishes it there, and returns its socket. */
async function publish(mesh: TestMesh, diskId: string, sizeBytes: number): Promise<string> {
  const { registry } = mesh.clients;
  await registry.createDisk({ diskId, sizeBytes, az: "z1", hostId: DEVICE_HOST });
  await registry.publishDisk({ diskId, hostId: DEVICE_HOST });
  return `${join(mesh.baseFolder(DEVICE_HOST), "exports", diskId)}.sock`;
}

/** Moves the disk to the host, and returns once its bytes are there and the source is left. */
async function move(mesh: TestMesh, diskId: string, hostId: string): Promise<void> {
  const { registry } = mesh.clients;
  await registry.migrateDisk({ diskId, hostId });
  await eventually(
    async () => {
      const { disk } = await registry.getDisk({ diskId });
      const copies = disk?.parts.flatMap((part) => part.copies) ?? [];
      const isThere = copies.length === 1 && copies[0]?.hostId === hostId;
      if (disk === undefined || !isThere) throw new Error(`disk ${diskId} is on ${disk && devicesWithBytes(disk)}`);
    },
    { everyMs: 5 },
  );
}
